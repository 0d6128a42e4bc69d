"""Provenance that an evaluation records: versions, prompts, tools and the files that it reads."""

from langchain_core.tools import tool

from agentflow.evals import provenance
from agentflow.evals.agent_names import AgentName
from agentflow.evals.record import Provenance
from agentflow.graph.context import Context
from agentflow.tools.card import RUN, UNKNOWN


@tool
def stock(article: str) -> str:
    """Looks up the stock."""
    return article


async def made(agent: AgentName = "agentflow", **context: object) -> Provenance:
    return await provenance.provenance_of(agent, Context.model_validate(context), "agentflow eval atlas")


async def test_versions_and_tools_are_written_down() -> None:
    found = await made(tools=["base_generator", "python_coder", f"{__name__}:stock"])
    assert {"agentflow", "code", "python", "platform", "langgraph", "langchain-core"} <= set(found.versions)
    assert {name: one.model for name, one in found.tools.items()} == {
        "base_generator": RUN,
        "python_coder": "",
        "stock": UNKNOWN,
    }
    assert len({one.card for one in found.tools.values()}) == 3
    assert (await made("direct")).tools == {}


async def test_another_version_and_another_tool_are_differences() -> None:
    before = await made(tools=["python_coder"])
    after = await made(tools=["python_coder", f"{__name__}:stock"])
    after.versions["langgraph"] = "9"
    assert [one.partition(" ")[0] for one in after.differences(before)] == ["langgraph", "tool"]
    assert before.differences(before) == []


def test_fields_of_earlier_versions_are_ignored() -> None:
    tool = {"model": "", "card": "c", "prompt": "p"}
    written = {"at": "", "call": "", "versions": {}, "prompts": {}, "tools": {"stock": tool}, "inputs": {}}
    assert Provenance.model_validate(written).tools["stock"].card == "c"
