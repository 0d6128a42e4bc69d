"""Forking a run from one of its turns with an edited plan: another future, and the old one unharmed."""

import json
import time
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from agentflow.graph.agent import Agent, build_graph
from agentflow.graph.context import Context
from agentflow.graph.state import PendingCall, Plan, State
from tests.scripted import CONTINUE, STOP, THREAD, Script, Scripted, echo, question

EDITED = {"sub_goal": "repeat another word", "tool": "echo", "context": "goodbye"}


@pytest.fixture
def script(scripted: Script) -> Scripted:
    return scripted(
        executor=lambda talk: json.dumps({"text": talk[1].text.rpartition("Context: ")[2]}),
        verifier=lambda talk: STOP if len(talk) > 4 else CONTINUE,
    )


def planned(agent: Agent, turn: int) -> Any:
    """The checkpoint after the planner's work of a turn."""
    return next(
        one
        for one in agent.get_state_history(THREAD)
        if one.next == ("executor",) and len(one.values["memory"]) == turn - 1 and one.metadata["source"] == "loop"
    )


@pytest.mark.parametrize("turn", [1, 2])
async def test_a_fork_carries_out_the_edited_plan(turn: int, script: Scripted) -> None:
    agent, context = build_graph([echo], checkpointer=InMemorySaver()), Context(model=script.spec)
    first = State.model_validate(await agent.ainvoke(question(), THREAD, context=context))
    before = [one.config["configurable"]["checkpoint_id"] for one in agent.get_state_history(THREAD)]

    at = planned(agent, turn)
    fork = agent.update_state(at.config, {"plan": EDITED}, as_node="planner")
    second = State.model_validate(await agent.ainvoke(None, fork, context=context))

    assert second.memory[: turn - 1] == first.memory[: turn - 1]
    forked = second.memory[turn - 1]
    assert (forked.plan.sub_goal, forked.action.result.output) == ("repeat another word", "goodbye")
    assert forked.plan.text == "Sub-Goal: repeat another word\nTool: echo\nContext: goodbye"
    assert second.status == "answered"
    if turn == 1:  # the planner of the next turn reads the edited plan as its own
        assert script.asked("planner")[-1][2].text == forked.plan.text

    after = {one.config["configurable"]["checkpoint_id"]: one for one in agent.get_state_history(THREAD)}
    assert set(before) <= set(after)
    assert State.model_validate(after[before[0]].values).memory == first.memory


async def test_a_fork_long_after_has_the_time_that_the_run_had_left(
    script: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = round(time.time())
    monkeypatch.setattr(time, "time", lambda: now)
    agent, context = build_graph([echo], checkpointer=InMemorySaver()), Context(model=script.spec, max_seconds=60)
    first = State.model_validate(await agent.ainvoke(question(), THREAD, context=context))
    monkeypatch.setattr(time, "time", lambda: now + 3600)

    fork = agent.update_state(planned(agent, 2).config, {"plan": EDITED}, as_node="planner")
    second = State.model_validate(await agent.ainvoke(None, fork, context=context))
    assert second.status == "answered"
    assert second.memory[1].action.result.output == "goodbye"
    assert second.deadline - first.deadline == 3600


@pytest.mark.parametrize(("pause", "counted"), [(1.0, 0.0), (3600.0, 3600.0)])
def test_only_a_pause_moves_the_deadline(pause: float, counted: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1000.0 + pause)
    state, plan = State(deadline=1100.0, at=1000.0), Plan(text="")
    assert (state.pause(), State(deadline=1100.0).pause()) == (counted, 0.0)
    call = PendingCall(arguments={}, plan=plan)
    waiting = state.model_copy(update={"plan": plan, "pending_call": call})
    assert waiting.pause() == 0.0
    marked = call.model_copy(update={"mark": "of a process that was killed"})
    assert waiting.model_copy(update={"pending_call": marked}).pause() == counted
    assert waiting.model_copy(update={"plan": Plan(**EDITED)}).pause() == counted
