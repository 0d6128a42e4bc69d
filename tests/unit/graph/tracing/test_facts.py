"""Messages of runs and calls in OpenTelemetry's format."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from agentflow.graph.run.recorder import text_of
from agentflow.graph.state import InputState
from agentflow.graph.tracing.facts import answer_messages, asked_messages, input_messages

QUESTION = {"role": "user", "parts": [{"type": "text", "content": "How?"}]}


def test_tool_calls_and_their_results_are_parts() -> None:
    call = AIMessage("Well.", tool_calls=[{"name": "add", "args": {"a": 1}, "id": "c"}])
    found = input_messages([[call, ToolMessage("2", tool_call_id="c")]])
    assert found == [
        {
            "role": "assistant",
            "parts": [
                {"type": "text", "content": "Well."},
                {"type": "tool_call", "id": "c", "name": "add", "arguments": {"a": 1}},
            ],
        },
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c", "response": "2"}]},
    ]
    texts = [text_of(part) for message in found for part in message["parts"]]
    assert texts == ["Well.", '{"name": "add", "arguments": {"a": 1}}', "2"]


@pytest.mark.parametrize(
    ("inputs", "messages"),
    [
        ({"messages": [("user", "How?")]}, [QUESTION]),
        ({"messages": "How?"}, [QUESTION]),
        ({"messages": [{"role": "user", "content": "How?"}]}, [QUESTION]),
        (InputState(messages=[HumanMessage("How?")]), [QUESTION]),
        ({"messages": [3]}, []),
        ({"messages": [{"role": "nobody", "content": ""}]}, []),
        ({"other": 1}, []),
        ("How?", []),
        (None, []),
    ],
)
def test_what_a_run_was_asked(inputs: Any, messages: list[dict[str, Any]]) -> None:
    assert asked_messages(inputs) == messages


@pytest.mark.parametrize(
    ("outputs", "answers"),
    [
        ({"answer": "So.", "messages": [AIMessage("Another.")]}, ["So."]),
        ({"messages": [HumanMessage("How?"), AIMessage("So.")]}, ["So."]),
        ({"messages": [HumanMessage("How?")]}, []),
        ({}, []),
        (None, []),
    ],
)
def test_what_a_run_answered(outputs: Any, answers: list[str]) -> None:
    assert [one["parts"][0]["content"] for one in answer_messages(outputs)] == answers
