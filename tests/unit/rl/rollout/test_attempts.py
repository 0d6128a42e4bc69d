"""Calls of an abandoned attempt are not trained on; those of a caught error are."""

import operator
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, TypedDict

from langchain_core.runnables import RunnableLambda
from langgraph.graph import END, START, StateGraph
from langgraph.types import RetryPolicy, Send

from agentflow.graph.tracing.observer import Observer
from agentflow.rl.policy.chat import ChatRequest, TokenReply
from agentflow.rl.policy.policy import Policy, serving
from agentflow.rl.rollout.calls import TokenCollector

AGAIN = RetryPolicy(initial_interval=0.001, jitter=False, max_attempts=3, retry_on=OSError)


class Talk(TypedDict):
    said: Annotated[list[str], operator.add]


Node = Callable[[Talk], Awaitable[dict[str, Any]]]


class Flaky:
    """Call the policy and fail, the given number of times; then call it and continue."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.asked = 0

    async def __call__(self, state: Any = None) -> dict[str, Any]:
        self.asked += 1
        number = self.asked
        reply = await Policy().ainvoke(str(number))
        if number <= self.failures:
            raise OSError("flaky")
        return {"said": [str(reply.text)]}


async def count(request: ChatRequest) -> TokenReply:
    """Replies with the prompt, whose number is the reply's only id."""
    text = request.messages[-1]["content"]
    return TokenReply(text, [1], [int(text)], [-0.5], "stop")


def graph(node: Any, **options: Any) -> Any:
    builder = StateGraph(Talk)
    builder.add_node("node", node, **options)
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    return builder.compile()


async def trained(app: Any, nodes: Sequence[str] = ("node",)) -> list[int]:
    """The number of each call that is trained on."""
    collector = TokenCollector("r", nodes)
    with serving(count):
        await app.ainvoke({"said": []}, {"callbacks": [Observer(collector, raise_error=True)]})
    return [call.response_ids[0] for call in collector.calls]


async def test_the_last_attempt_of_a_node_counts_alone() -> None:
    node = Flaky(2)
    assert await trained(graph(node, retry_policy=AGAIN)) == [3]
    assert node.asked == 3


async def test_a_subgraph_is_given_up_with_the_node_that_is_it() -> None:
    assert await trained(graph(graph(Flaky(1)), retry_policy=AGAIN)) == [2]


async def test_a_subgraph_that_a_node_calls_is_given_up_with_it() -> None:
    inner = graph(Flaky(1))

    async def node(state: Talk) -> Any:
        return await inner.ainvoke(state)

    assert await trained(graph(node, retry_policy=AGAIN)) == [2]


async def test_a_node_of_a_subgraph_begins_again_by_itself() -> None:
    first, flaky = Flaky(0), Flaky(1)
    builder = StateGraph(Talk)
    builder.add_node("first", first)
    builder.add_node("flaky", flaky, retry_policy=AGAIN)
    builder.add_edge(START, "first")
    builder.add_edge("first", "flaky")
    assert await trained(graph(builder.compile())) == [1, 2]


async def test_branches_of_one_node_begin_again_each_by_itself() -> None:
    failed: set[str] = set()

    async def node(state: dict[str, str]) -> dict[str, Any]:
        number = state["number"]
        again = int(number) + 10 * (number in failed)
        reply = await Policy().ainvoke(str(again))
        if int(number) % 2 and number not in failed:
            failed.add(number)
            raise OSError("flaky")
        return {"said": [str(reply.text)]}

    builder = StateGraph(Talk)
    builder.add_node("node", node, retry_policy=AGAIN)
    builder.add_conditional_edges(START, lambda state: [Send("node", {"number": str(n)}) for n in range(4)], ["node"])
    assert sorted(await trained(builder.compile())) == [0, 2, 11, 13]


async def test_a_sibling_of_what_failed_counts_once() -> None:
    steady, flaky = Flaky(0), Flaky(1)
    builder = StateGraph(Talk)
    builder.add_node("steady", steady)
    builder.add_node("flaky", flaky, retry_policy=AGAIN)
    builder.add_edge(START, "steady")
    builder.add_edge(START, "flaky")
    assert sorted(await trained(builder.compile(), ["steady", "flaky"])) == [1, 2]
    assert steady.asked == 1


async def test_a_chain_that_is_retried() -> None:
    flaky = Flaky(1)
    chain = RunnableLambda(flaky).with_retry(wait_exponential_jitter=False, retry_if_exception_type=(OSError,))

    async def node(state: Talk) -> Any:
        return await chain.ainvoke(None)

    assert await trained(graph(node)) == [2]


async def test_what_a_fallback_stands_in_for_led_to_it() -> None:
    """An answer that cannot be read, and a default: the policy has to learn from the answer."""

    async def default(state: Any) -> dict[str, Any]:
        return {"said": ["default"]}

    chain = RunnableLambda(Flaky(1)).with_fallbacks([RunnableLambda(default)])

    async def node(state: Talk) -> Any:
        return await chain.ainvoke(None)

    assert await trained(graph(node)) == [1]


async def test_what_a_node_caught_led_to_what_followed() -> None:
    inner = graph(Flaky(1))

    async def node(state: Talk) -> Any:
        try:
            return await inner.ainvoke(state)
        except OSError:
            return {"said": ["unreadable"]}

    assert await trained(graph(node)) == [1]


async def test_a_node_in_a_loop_counts_each_time() -> None:
    node = Flaky(0)
    builder = StateGraph(Talk)
    builder.add_node("node", node, retry_policy=AGAIN)
    builder.add_edge(START, "node")
    builder.add_conditional_edges("node", lambda state: "node" if len(state["said"]) < 3 else END)
    assert await trained(builder.compile()) == [1, 2, 3]
