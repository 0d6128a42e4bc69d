"""AutoGen's `AssistantAgent`, one agent per rollout."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import ModelFamily
from autogen_core.tools import FunctionTool
from autogen_ext.models.openai import OpenAIChatCompletionClient

from benchmarks.speed.work import QUESTION, Rollout, Work

DISTRIBUTION = "autogen-agentchat"


@asynccontextmanager
async def rollouts(work: Work) -> AsyncIterator[Rollout]:
    """Yield rollouts over one client."""

    async def look_up(text: str) -> str:
        """Looks something up."""
        return work.result

    tool = FunctionTool(look_up, description="Looks something up.")
    client = OpenAIChatCompletionClient(
        model="none",
        base_url=work.url("tools"),
        api_key="none",
        model_info={
            "vision": False,
            "function_calling": True,
            "json_output": False,
            "family": ModelFamily.UNKNOWN,
            "structured_output": False,
        },
    )

    async def rollout() -> str:
        agent = AssistantAgent("agent", client, tools=[tool], max_tool_iterations=1000)
        result = await agent.run(task=QUESTION)
        return result.messages[-1].to_text()

    yield rollout
    await client.close()
