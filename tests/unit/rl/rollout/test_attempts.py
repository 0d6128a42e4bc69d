"""Calls of an abandoned attempt are not trained on; those of a caught error are."""

import operator
from collections.abc import Sequence
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.runnables import RunnableLambda
from langgraph.graph import END, START, StateGraph
from langgraph.types import RetryPolicy, Send

from agentflow.graph.models.spec import ModelError
from agentflow.graph.tracing.observer import Observer
from agentflow.rl.policy.chat import ChatRequest, TokenReply
from agentflow.rl.policy.policy import Policy, serving
from agentflow.rl.rollout.calls import TokenCollector

AGAIN = RetryPolicy(initial_interval=0.001, jitter=False, max_attempts=3, retry_on=OSError)


class Talk(TypedDict):
    said: Annotated[list[str], operator.add]


class Flaky:
    """Call the policy and fail, the given number of times; then call it and continue."""

    def __init__(self, failures: int, error: Exception = OSError("flaky")) -> None:  # noqa: B008
        self.failures, self.error = failures, error
        self.asked = 0

    async def __call__(self, state: Any = None) -> dict[str, Any]:
        self.asked += 1
        number = self.asked
        reply = await Policy().ainvoke(str(number))
        if number <= self.failures:
            raise self.error
        return {"said": [str(reply.text)]}


async def count(request: ChatRequest) -> TokenReply:
    """Replies with the prompt, whose number is the reply's only id."""
    text = request.messages[-1]["content"]
    return TokenReply(text, [1], [int(text)], [-0.5], "stop")


def graph(node: Any, **options: Any) -> Any:
    return StateGraph(Talk).add_node("node", node, **options).add_edge(START, "node").compile()


async def trained(app: Any, nodes: Sequence[str] = ("node",)) -> list[int]:
    """The number of each call that is trained on."""
    return [call.response_ids[0] for call in (await collected(app, nodes)).calls]


async def collected(app: Any, nodes: Sequence[str] = ("node",)) -> TokenCollector:
    collector = TokenCollector("r", nodes)
    with serving(count):
        await app.ainvoke({"said": []}, {"callbacks": [Observer(collector, raise_error=True)]})
    return collector


def calling(inner: Any) -> Any:
    """A node that calls a graph or a chain."""

    async def node(state: Talk) -> Any:
        return await inner.ainvoke(state)

    return graph(node, retry_policy=AGAIN)


def catching(inner: Any) -> Any:
    async def node(state: Talk) -> Any:
        try:
            return await inner.ainvoke(state)
        except OSError:
            return {"said": ["unreadable"]}

    return graph(node)


DEFAULT: Any = RunnableLambda(lambda state: {"said": ["default"]})


def retried(node: Flaky) -> Any:
    return RunnableLambda(node).with_retry(wait_exponential_jitter=False, retry_if_exception_type=(OSError,))


def looped(node: Flaky) -> Any:
    builder = StateGraph(Talk).add_node("node", node, retry_policy=AGAIN).add_edge(START, "node")
    return builder.add_conditional_edges("node", lambda state: "node" if len(state["said"]) < 3 else END).compile()


@pytest.mark.parametrize(
    ("app", "expected"),
    [
        (graph(Flaky(2), retry_policy=AGAIN), [3]),
        (graph(graph(Flaky(1)), retry_policy=AGAIN), [2]),
        (calling(graph(Flaky(1))), [2]),
        (calling(retried(Flaky(1))), [2]),
        # An answer that cannot be read, and a default: the policy has to learn from the answer.
        (calling(RunnableLambda(Flaky(1)).with_fallbacks([DEFAULT])), [1]),
        (catching(graph(Flaky(1))), [1]),
        (looped(Flaky(0)), [1, 2, 3]),
    ],
    ids=["node", "subgraph", "called_subgraph", "chain", "fallback", "caught", "loop"],
)
async def test_the_last_attempt_counts_and_what_led_to_what_followed(app: Any, expected: list[int]) -> None:
    assert await trained(app) == expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [(ValueError("no date"), [1, 2]), (OSError("the network"), []), (ModelError("it is down"), [])],
)
async def test_an_attempt_is_the_policys_failure_if_what_it_said_was_refused(error: Any, expected: list[int]) -> None:
    again = RetryPolicy(initial_interval=0.001, jitter=False, max_attempts=3, retry_on=Exception)
    chain = RunnableLambda(Flaky(2, error)).with_retry(wait_exponential_jitter=False)
    for app in (graph(Flaky(2, error), retry_policy=again), calling(chain)):
        found = await collected(app)
        assert [call.response_ids[0] for call in found.given_up] == expected
        assert [call.response_ids[0] for call in found.calls] == [3]


async def test_a_node_of_a_subgraph_begins_again_by_itself() -> None:
    first, flaky = Flaky(0), Flaky(1)
    builder = StateGraph(Talk).add_node("first", first).add_node("flaky", flaky, retry_policy=AGAIN)
    assert await trained(graph(builder.add_edge(START, "first").add_edge("first", "flaky").compile())) == [1, 2]


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

    builder: Any = StateGraph(Talk).add_node("node", node, retry_policy=AGAIN)  # type: ignore[arg-type]
    builder.add_conditional_edges(START, lambda state: [Send("node", {"number": str(n)}) for n in range(4)], ["node"])
    assert sorted(await trained(builder.compile())) == [0, 2, 11, 13]


async def test_a_sibling_of_what_failed_counts_once() -> None:
    steady, flaky = Flaky(0), Flaky(1)
    builder = StateGraph(Talk).add_node("steady", steady).add_node("flaky", flaky, retry_policy=AGAIN)
    builder.add_edge(START, "steady").add_edge(START, "flaky")
    assert sorted(await trained(builder.compile(), ["steady", "flaky"])) == [1, 2]
    assert steady.asked == 1
