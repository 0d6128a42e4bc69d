"""The reward with which a public agent was trained, on messages as its graph leaves them."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage

from agentflow.graph.run.task import Task
from examples.agents import emails

EMAIL = {"to": "zoe@example.com", "subject": "Team lunch", "content": "It is moved to Friday at 9:15."}


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
    call = {"name": "write_email", "args": {**EMAIL, **changed}, "id": "1", "type": "tool_call"}
    messages = [AIMessage("", tool_calls=[call]), ToolMessage("sent", tool_call_id="1")]
    assert emails.score(task, {"messages": messages}) == points / 5
    assert emails.score(task, {"messages": [AIMessage("Done.")]}) == 0
