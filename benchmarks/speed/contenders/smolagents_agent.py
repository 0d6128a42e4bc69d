"""smolagents' `ToolCallingAgent`, one agent per rollout. It is not asynchronous, so each rollout has a thread."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from smolagents import LogLevel, OpenAIModel, Tool, ToolCallingAgent

from benchmarks.speed.work import QUESTION, Rollout, Work

DISTRIBUTION = "smolagents"


class LookUp(Tool):  # type: ignore[misc]
    """The tool."""

    name = "look_up"
    description = "Looks something up."
    inputs = {"text": {"type": "string", "description": "What to look up."}}  # noqa: RUF012 - as smolagents has it
    output_type = "string"

    def __init__(self, name: str, result: str) -> None:
        super().__init__()
        self.name, self.result = name, result

    def forward(self, text: str) -> str:
        """The result."""
        return self.result


@asynccontextmanager
async def rollouts(work: Work) -> AsyncIterator[Rollout]:
    """Yield rollouts with one model."""
    model = OpenAIModel(model_id="none", api_base=work.url("finish"), api_key="none")
    tools = [LookUp(name, work.result) for name in work.names]

    def run() -> Any:
        agent = ToolCallingAgent(tools, model, verbosity_level=LogLevel.OFF, max_steps=1000)
        return agent.run(QUESTION)

    async def rollout() -> str:
        return str(await asyncio.to_thread(run))

    yield rollout
