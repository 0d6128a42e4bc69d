"""The rewards with which public agents were trained, on messages as their graphs leave them."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage

from agentflow.graph.run.task import Task
from examples.agents import emails, facts

EMAIL = {"to": "zoe@example.com", "subject": "Team lunch", "content": "It is moved to Friday at 9:15."}


def calling(name: str, args: dict[str, Any], result: str) -> list[Any]:
    call = {"name": name, "args": args, "id": "1", "type": "tool_call"}
    return [AIMessage("", tool_calls=[call]), ToolMessage(result, tool_call_id="1")]


@pytest.mark.parametrize(
    ("changed", "points"),
    [
        ({}, 5),
        ({"to": "zoe"}, 4),
        ({"subject": "Lunch"}, 4),
        ({"content": "It is on Friday."}, 4),
        ({"content": "It is at 9:15. " * 10}, 3),
        ({"content": ""}, 2),
    ],
)
def test_an_email_has_a_point_for_each_thing_that_it_is_to_say(changed: dict[str, Any], points: int) -> None:
    asked = {"address": "zoe@example.com", "matter": "team lunch", "day": "Friday", "hour": "9:15"}
    task = Task(id="1", question="", data=asked)
    assert emails.score(task, {"messages": calling("write_email", {**EMAIL, **changed}, "sent")}) == points / 5
    assert emails.score(task, {"messages": [AIMessage("Done.")]}) == 0


def test_only_facts_in_a_stored_memory_count() -> None:
    task = Task(id="1", question="", data={"facts": ["Oslo", "soy"]})
    for said, result, expected in (
        ("Lives in oslo, no soy", "Stored memory 1", 1),
        ("Lives in Oslo", "Stored memory 1", 0.5),
        ("Lives in Oslo", "Error: no content", 0),
    ):
        assert facts.score(task, {"messages": calling("upsert_memory", {"content": said}, result)}) == expected
