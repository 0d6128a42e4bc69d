"""System messages of a graph's nodes are replaced by path, however the node calls its model."""

import asyncio
from typing import Any, cast

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage
from langchain_core.outputs import ChatResult
from langgraph.graph import MessagesState
from pydantic import Field

from agentflow.graph.run.runner import Graph
from agentflow.graph.tracing.observer import Observer
from agentflow.rl.policy.policy import no_policy, serving, stand_in
from agentflow.rl.prompts.feedback import CallLog
from tests.graphs import chain
from tests.unit.rl.ways import WAYS


class Recording(GenericFakeChatModel):
    """A model that records the conversations that reach it."""

    seen: list[list[BaseMessage]] = Field(default_factory=list)

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self.seen.append(messages)
        return super()._generate(messages, *args, **kwargs)


@pytest.fixture
def model() -> Recording:
    return Recording(messages=iter([AIMessage("fine")] * 20))


def graph_of(node: Any, name: str = "answer") -> Graph:
    return cast(Graph, chain(MessagesState, **{name: node}))


async def played(graph: Graph, changes: dict[str, tuple[str, str]]) -> CallLog:
    stand_in()
    log = CallLog()
    observer = Observer(log, raise_error=True)
    with serving(no_policy, observer, systems=changes):
        await graph.ainvoke({"messages": [("user", "hello")]}, {"callbacks": [observer]})
    return log


ASKED = [SystemMessage("Old."), ("user", "hello"), SystemMessage("Other.")]


@pytest.mark.parametrize("way", WAYS)
async def test_each_way_to_call_a_model(model: Recording, way: str) -> None:
    async def node(state: MessagesState) -> dict[str, Any]:
        await WAYS[way](model, ASKED)
        return {}

    log = await played(graph_of(node), {"answer": ("Old.", "New.")})
    assert {tuple(str(message.content) for message in one) for one in model.seen} == {("New.", "hello", "Other.")}
    assert {call["System"] for call in log.calls} == {"New."}


def asking(model: Recording) -> Graph:
    async def node(state: MessagesState) -> dict[str, Any]:
        await asyncio.sleep(0)
        await model.ainvoke(ASKED)
        return {}

    return graph_of(node)


async def test_only_the_named_node_with_its_default_is_changed(model: Recording) -> None:
    for changes in ({"other": ("Old.", "New.")}, {"answer": ("Older.", "New.")}, {}):
        await played(asking(model), changes)
    await asking(model).ainvoke({"messages": []})
    assert {one[0].content for one in model.seen} == {"Old."}


async def test_concurrent_rollouts_have_prompts_of_their_own(model: Recording) -> None:
    graph = asking(model)
    await asyncio.gather(*(played(graph, {"answer": ("Old.", f"New {number}.")}) for number in range(5)))
    assert {one[0].content for one in model.seen} == {f"New {number}." for number in range(5)}


async def test_an_agent_of_langchain_inside_a_node(model: Recording) -> None:
    inner = create_agent(model, [], system_prompt="Old.", name="helper")
    log = await played(graph_of(inner, "research"), {"research/helper/model": ("Old.", "New.")})
    assert [call["Assistant"] for call in log.calls] == ["research/helper/model"]
    assert model.seen[0][0].content == "New."
