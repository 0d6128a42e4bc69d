"""A person approves, edits or refuses calls, whatever client the answer comes from."""

import time
from pathlib import Path
from typing import Any

import pytest
from langchain.agents.middleware.human_in_the_loop import HITLRequest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import TypeAdapter

from agentflow.graph.agent import Agent, build_graph
from agentflow.graph.context import Context
from agentflow.graph.models.spec import ModelError
from agentflow.nodes.approval import read_decision
from tests.cases import cases
from tests.failing import fails
from tests.scripted import CONTINUE, STOP, THREAD, Script, Scripted, echo, question

QUESTION = question()
APPROVE = Command(resume={"decision": "approve"})


def settings(script: Scripted, **fields: Any) -> Context:
    return Context(model=script.spec, **{"approve_tools": ["echo"], **fields})


async def waiting(script: Scripted, **fields: Any) -> tuple[Agent, Context]:
    """A run that waits for a person, with the means to resume it."""
    graph = build_graph([echo], checkpointer=InMemorySaver())
    context = settings(script, **fields)
    found = await graph.ainvoke(QUESTION, THREAD, context=context)
    assert found["__interrupt__"]
    assert found["memory"] == []
    return graph, context


async def test_what_a_person_sees(scripted: Script) -> None:
    graph, _ = await waiting(scripted())
    (task,) = (await graph.aget_state(THREAD)).tasks
    assert task.interrupts[0].value == {
        "tool": "echo",
        "arguments": {"text": "hello"},
        "sub_goal": "repeat it",
        "turn": 1,
        "note": "",
        "action_requests": [{"name": "echo", "args": {"text": "hello"}, "description": "repeat it"}],
        "review_configs": [{"action_name": "echo", "allowed_decisions": ["approve", "edit", "reject"]}],
    }
    TypeAdapter(HITLRequest).validate_python(task.interrupts[0].value)  # as a client of LangChain's middleware reads it


CASES = Path(__file__).with_name("cases")


@pytest.mark.parametrize(
    ("answer", "arguments", "output", "error"),
    cases(CASES / "decisions.jsonl", "answer", "arguments", "output", "error"),
)
async def test_a_person_decides(answer: Any, arguments: Any, output: str, error: str | None, scripted: Script) -> None:
    script = scripted()
    graph, context = await waiting(script)
    found = await graph.ainvoke(Command(resume=answer), THREAD, context=context)
    action = found["memory"][0].action
    assert (action.arguments, action.result.output, action.result.error) == (arguments, output, error)
    assert len(script.asked("executor")) == 1  # the call that was approved is the one that was shown
    assert (found["answer"], found["pending_call"]) == ("hello", None)


@pytest.mark.parametrize(("edit", "problem"), cases(CASES / "edits.jsonl", "edit", "problem"))
async def test_an_edit_that_does_not_fit_is_asked_for_again(edit: Any, problem: str, scripted: Script) -> None:
    graph, context = await waiting(scripted())
    found = await graph.ainvoke(Command(resume=edit), THREAD, context=context)
    assert found["__interrupt__"][0].value["note"] == f"the edit cannot be used: {problem}"
    assert found["memory"] == []
    second = Command(resume={"decision": "edit", "arguments": {"text": "bye"}})
    found = await graph.ainvoke(second, THREAD, context=context)
    assert (found["memory"][0].action.result.output, found["status"]) == ("bye", "answered")


async def test_each_call_is_approved_anew_and_the_planner_reads_a_refusal(scripted: Script) -> None:
    script = scripted(verifier=[CONTINUE, STOP])
    graph, context = await waiting(script, approve_tools=["*"])
    refusal = Command(resume={"decision": "refuse", "reason": "too loud"})
    found = await graph.ainvoke(refusal, THREAD, context=context)
    assert (found["__interrupt__"][0].value["turn"], len(found["memory"])) == (2, 1)
    assert found["memory"][0].action.result.output in script.asked("planner")[1][-1].text
    found = await graph.ainvoke(APPROVE, THREAD, context=context)
    assert (len(found["memory"]), found["status"]) == (2, "answered")
    assert len(script.asked("executor")) == 2


async def test_waiting_for_a_person_takes_none_of_the_runs_time(
    scripted: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, context = await waiting(scripted(), max_seconds=60)
    clock = time.time
    monkeypatch.setattr(time, "time", lambda: clock() + 3600)
    found = await graph.ainvoke(APPROVE, THREAD, context=context)
    assert (found["memory"][0].action.result.status, found["status"]) == ("ok", "answered")


async def test_a_new_question_forgets_a_call_that_waits(scripted: Script) -> None:
    graph, context = await waiting(scripted())
    second = {"messages": [("user", "Second?")]}
    found = await graph.ainvoke(second, THREAD, context=context.model_copy(update={"approve_tools": []}))
    assert (found["question"], found["status"], len(found["memory"])) == ("Second?", "answered", 1)


async def test_no_run_that_could_not_wait_begins(scripted: Script) -> None:
    script = scripted()
    with fails(ModelError, "no_checkpointer", configuration=True):
        await build_graph([echo]).ainvoke(QUESTION, THREAD, context=settings(script))
    assert script.calls == []


@pytest.mark.parametrize(
    "answer",
    [
        *(None, 3, [], [1, 2], {}, {"type": "shout"}, {"decision": ["approve"]}, {"type": []}, {"decisions": None}),
        {"decisions": [{"type": "approve"}, {"type": "approve"}]},
        {"type": "edit", "edited_action": {"name": 3, "args": {}}},
    ],
)
def test_what_is_no_answer_refuses(answer: object) -> None:
    assert read_decision(answer).decision == "refuse"
