"""Arguments by a tool's schema, and calls as models write them."""

import json
from typing import Any

import pytest

from agentflow.rl.policy.reply_formats import READERS, typed
from tests.cases import table


@pytest.mark.parametrize(("schema", "text", "value"), table(__file__, "arguments.txt"))
def test_an_argument_is_what_its_schema_says(schema: Any, text: str, value: Any) -> None:
    definitions = {"Point": {"type": "object"}, "Loop": {"anyOf": [{"$ref": "#/$defs/Loop"}]}}
    found = typed(text, "x", {"properties": {"x": schema}, "$defs": definitions})
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("parameters", [{}, {"properties": None}, {"properties": {"y": {}}}])
def test_an_argument_without_a_schema_is_what_it_looks_like(parameters: dict[str, Any]) -> None:
    assert [typed(text, "x", parameters) for text in ("3", "three")] == [3, "three"]


@pytest.mark.parametrize(("reader", "text", "calls"), table(__file__, "replies.txt"))
def test_a_reply_is_its_calls_or_unreadable(reader: str, text: str, calls: Any) -> None:
    """null is a call that cannot be read, which is a fault; an empty list is an answer."""
    found = READERS[reader](text, [])
    assert (found and [[call.name, json.loads(call.arguments)] for call in found[1]]) == calls
