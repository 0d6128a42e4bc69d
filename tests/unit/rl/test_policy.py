import asyncio
from collections.abc import Sequence

import pytest
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langgraph.graph import END, START, MessagesState, StateGraph

from agentflow.graph.context import Sampling
from agentflow.graph.models.loading import load_model
from agentflow.graph.models.spec import ModelError
from agentflow.rl.policy import Policy, TokenReply, serving


async def echo(messages: Sequence[tuple[str, str]], sampling: Sampling) -> TokenReply:
    return TokenReply(f"{messages} {sampling.max_tokens} {sampling.stop}", [1], [2], [-0.5], "stop")


async def test_served_calls_carry_roles_and_the_callers_limits() -> None:
    with serving(echo):
        reply = await load_model("policy", Sampling(max_tokens=9)).ainvoke(
            [SystemMessage("s"), HumanMessage("h")], stop=["x"]
        )
    assert reply.text == "[('system', 's'), ('user', 'h')] 9 ('x',)"
    assert reply.response_metadata["token_ids"] == [2]


async def test_a_node_that_is_not_async_is_served_too() -> None:
    def node(state: MessagesState) -> MessagesState:
        return {"messages": [Policy().invoke(state["messages"])]}

    builder = StateGraph(MessagesState)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    with serving(echo):
        state = await builder.compile().ainvoke({"messages": [HumanMessage("h")]})
    assert "('user', 'h')" in state["messages"][-1].text


async def test_outside_of_training_the_fallback_answers() -> None:
    model = Policy(fallback="atlas-oracle")
    assert (await model.ainvoke([HumanMessage("hello")])).text == "Answer: unknown\nVerdict: stop"
    assert (await asyncio.to_thread(model.invoke, "hello")).text == "Answer: unknown\nVerdict: stop"


async def test_two_rollouts_at_once_have_each_their_own_server() -> None:
    async def one(name: str) -> str:
        async def generate(messages: Sequence[tuple[str, str]], sampling: Sampling) -> TokenReply:
            await asyncio.sleep(0.01)
            return TokenReply(name, [1], [2], [-0.5], "stop")

        with serving(generate):
            return str((await Policy().ainvoke("q")).text)

    assert await asyncio.gather(one("a"), one("b")) == ["a", "b"]


async def test_messages_that_it_cannot_read() -> None:
    with serving(echo), pytest.raises(ModelError, match="not 'tool'"):
        await Policy().ainvoke([ToolMessage("t", tool_call_id="1")])
