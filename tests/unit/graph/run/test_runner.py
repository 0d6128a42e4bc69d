"""The runner on graphs of anybody: what ends a run, who caused it, and what a graph around it sees."""

import asyncio
import operator
import threading
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from agentflow.graph.models.spec import ModelError
from agentflow.graph.run.runner import LimitExceeded, Unanswered, run
from agentflow.graph.run.task import Task
from agentflow.graph.run.trace import Trace
from agentflow.rl.policy.policy import PolicyMisused, PromptTooLong
from agentflow.tools.coded_error import Cause
from agentflow.tools.sandbox.limits import SandboxError
from tests.waiting import LAST_RESORT

TASK = Task.from_question("How many?")


class Sum(TypedDict, total=False):
    question: str
    answer: str
    status: str


def graph(node: Any, **compiled: Any) -> Any:
    return StateGraph(Sum).add_node("node", node).add_edge(START, "node").compile(**compiled)


async def played(node: Any, **options: Any) -> Trace:
    return await run(graph(node), TASK, inputs={"question": TASK.question}, **options)


async def test_the_answer_of_any_graph_is_its_final_state() -> None:
    trace = await played(lambda state: {"answer": "49", "status": "done"})
    assert (trace.status, trace.answer, trace.cause, trace.failure) == ("answered", "49", None, None)
    assert trace.state == {"question": TASK.question, "answer": "49", "status": "done"}


async def test_an_empty_input_is_the_graphs_input() -> None:
    """The question was put in its place, which a graph with another state does not know."""
    builder = StateGraph(Annotated[list[str], operator.add]).add_node("node", lambda state: ["49"])  # type: ignore[type-var]
    trace = await run(builder.add_edge(START, "node").compile(), TASK, inputs=[])
    assert (trace.error, trace.state) == ("", ["49"])


async def test_the_state_is_what_the_graph_outputs() -> None:
    class Output(TypedDict):
        answer: str

    builder = StateGraph(Sum, output_schema=Output).add_node("node", lambda state: {"answer": "49"})
    compiled = builder.add_edge(START, "node").compile()
    trace = await run(compiled, TASK, inputs={"question": TASK.question})
    assert trace.state == await compiled.ainvoke({"question": TASK.question}) == {"answer": "49"}


@pytest.mark.parametrize(
    ("error", "cause", "sentence"),
    [
        (ModelError("the server is down"), "infrastructure", "the server is down"),
        (SandboxError("the sandbox ended"), "infrastructure", "the sandbox ended"),
        (PromptTooLong("too long"), "policy", "too long"),
        (PolicyMisused("use ainvoke"), "agent", "use ainvoke"),
        (KeyError("x"), "agent", "KeyError: 'x'"),
        (TimeoutError("of its own"), "agent", "TimeoutError: of its own"),
    ],
)
async def test_a_failure_has_a_cause_and_a_sentence(error: Exception, cause: Cause, sentence: str) -> None:
    async def raising(state: Sum) -> Sum:
        raise error

    trace = await played(raising, seconds=3600)
    assert (trace.status, trace.cause, trace.error, trace.failure) == ("failed", cause, sentence, error)
    assert Trace.model_validate_json(trace.model_dump_json()).cause == cause


async def test_nodes_that_wait_in_threads_leave_none_waiting() -> None:
    """Asyncio's own executor has few threads, and slow tools of many runs came to their end one after another."""
    together = threading.Barrier(64)

    def node(state: Sum) -> Sum:
        return {"answer": str(together.wait(LAST_RESORT) < 64)}

    traces = await asyncio.gather(*(played(node) for _ in range(64)))
    assert {trace.answer for trace in traces} == {"True"}


async def test_a_run_that_takes_too_long_is_a_limit() -> None:
    async def node(state: Sum) -> Sum:
        await asyncio.Event().wait()
        return state

    trace = await played(node, seconds=0.05)
    assert (trace.cause, type(trace.failure), trace.answer) == ("limit", LimitExceeded, "")


def asks(state: Sum) -> Sum:
    return {"answer": interrupt("Which?")}


async def test_an_interrupt_that_nobody_answers_ends_the_run() -> None:
    config: Any = {"configurable": {"thread_id": "1"}}
    trace = await run(graph(asks, checkpointer=InMemorySaver()), TASK, inputs={"question": "?"}, config=config)
    assert (trace.cause, type(trace.failure)) == ("person", Unanswered)


async def test_within_a_node_an_interrupt_pauses_the_graph_around_it() -> None:
    inner = graph(asks)

    async def node(state: Sum) -> Sum:
        return {"answer": (await run(inner, TASK, inputs=state)).answer}

    outer, config = graph(node, checkpointer=InMemorySaver()), {"configurable": {"thread_id": "1"}}
    [asked] = (await outer.ainvoke({"question": "?"}, config))["__interrupt__"]
    assert asked.value == "Which?"
    assert (await outer.ainvoke(Command(resume="this one"), config))["answer"] == "this one"


async def test_the_callbacks_of_the_graph_around_a_run_see_it() -> None:
    names = list[str]()

    class Names(BaseCallbackHandler):
        def on_chain_start(self, *_: Any, **known: Any) -> None:
            names.append(known["name"])

    inner = graph(lambda state: {"answer": "49"}, name="inner")

    async def node(state: Sum) -> Sum:
        return {"answer": (await run(inner, TASK, inputs=state)).answer}

    await graph(node, name="outer").ainvoke({"question": "?"}, {"callbacks": [Names()]})
    assert names[:3] == ["outer", "node", "inner"]
