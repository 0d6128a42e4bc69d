"""The events of a run, as `stream_mode="custom"` brings them."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from agentflow.graph.agent import Agent, build_graph
from agentflow.graph.context import Context
from agentflow.graph.events import FIELDS, MAX_CHARACTERS
from tests.scripted import CONTINUE, STOP, THREAD, Script, echo, question


@pytest.fixture
def context(scripted: Script) -> Callable[..., Context]:
    return lambda settings=None, **replies: Context(model=scripted(**replies).spec, **(settings or {}))


async def events(agent: Agent, given: Any, context: Context, config: Any = None) -> list[dict[str, Any]]:
    found = [event async for event in agent.astream(given, config, context=context, stream_mode="custom")]
    for event in found:
        assert json.loads(json.dumps(event)) == event  # it goes over the wire
        assert set(event) == {"type", "turn", *FIELDS[event["type"]]}
    return found


async def test_the_events_of_two_turns(context: Callable[..., Context]) -> None:
    found = await events(build_graph([echo]), question(), context(verifier=[CONTINUE, STOP]))
    turn = ["planning", "planned", "tool_called", "result", "verdict"]
    assert [(event["type"], event["turn"]) for event in found] == [
        ("analysed", 0),
        *((name, 1) for name in turn),
        *((name, 2) for name in turn),
        ("answer", 2),
    ]
    by_type = {event["type"]: event for event in found}
    assert by_type["planned"]["sub_goal"] == "repeat it"
    assert by_type["tool_called"]["arguments"] == {"text": "hello"}
    assert (by_type["result"]["status"], by_type["result"]["output"]) == ("ok", "hello")
    assert (by_type["verdict"]["signal"], by_type["answer"]["answer"]) == ("stop", "hello")
    assert by_type["answer"]["status"] == "answered"


async def test_a_step_that_cannot_be_read_calls_no_tool(context: Callable[..., Context]) -> None:
    found = await events(build_graph([echo]), question(), context(planner="No idea."))
    assert [event["type"] for event in found][1:5] == ["planning", "planned", "result", "verdict"]
    assert "Sub-Goal" in found[2]["problem"]
    assert found[3]["error"] == "bad_plan"


async def test_a_call_that_waits_is_said_once_and_called_after_approval(context: Callable[..., Context]) -> None:
    agent, settings = build_graph([echo], checkpointer=InMemorySaver()), context({"approve_tools": ["echo"]})
    before = await events(agent, question(), settings, THREAD)
    assert before[-1] == {"type": "approval_needed", "turn": 1, "tool": "echo", "arguments": {"text": "hello"}}
    assert "tool_called" not in [event["type"] for event in before]
    after = await events(agent, Command(resume={"decision": "approve"}), settings, THREAD)
    assert [event["type"] for event in after] == ["tool_called", "result", "verdict", "answer"]


def test_a_long_output_is_cut_in_a_synchronous_stream_too(context: Callable[..., Context]) -> None:
    long = json.dumps({"text": "x" * (3 * MAX_CHARACTERS)})
    found = [*build_graph([echo]).stream(question(), context=context(executor=long), stream_mode="custom")]
    assert [event["type"] for event in found][-3:] == ["result", "verdict", "answer"]
    assert found[-3]["output"] == "x" * MAX_CHARACTERS
