"""Replies that a server would not have let through, by their schema."""

from typing import Any, Literal

import pytest
from pydantic import BaseModel

from agentflow.rl.policy.schemas import example, fits, takes


class Step(BaseModel):
    kind: Literal["a", "b"]
    parts: list["Step"] = []


class Form(BaseModel):
    number: int
    share: float | None
    steps: list[Step]
    more: dict[str, Any] = {}


GOOD: dict[str, Any] = {"number": 1, "share": None, "steps": [{"kind": "a", "parts": [{"kind": "b"}]}]}
DEEP: Any = {"kind": "a"}
for _ in range(2000):
    DEEP = {"kind": "a", "parts": [DEEP]}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, True),
        ({"number": 2.0, "share": 1, "more": {"x": [None]}, "other": "y"}, True),
        ({"number": "1"}, False),
        ({"number": True}, False),
        ({"number": 1.5}, False),
        ({"share": "half"}, False),
        ({"steps": {}}, False),
        ({"steps": [[None]]}, False),
        ({"steps": [{"kind": "c"}]}, False),
        ({"steps": [{"kind": "a", "parts": [{}]}]}, False),
        ({"steps": [DEEP]}, False),
    ],
)
def test_a_value_fits_its_schema(changed: dict[str, Any], expected: bool) -> None:
    assert fits({**GOOD, **changed}, Form.model_json_schema()) == expected


@pytest.mark.parametrize(
    ("given", "more", "expected"),
    [
        ({"number": 1, "share": None, "steps": []}, {}, True),
        ({"number": "1", "share": "x", "steps": 2}, {}, True),
        ({"number": 1}, {}, False),
        ({**GOOD, "other": 1}, {}, False),
        ({**GOOD, "other": 1}, {"additionalProperties": True}, True),
    ],
)
def test_the_names_of_arguments(given: dict[str, Any], more: dict[str, Any], expected: bool) -> None:
    assert takes({**Form.model_json_schema(), **more}, given) == expected
    assert takes({}, given)
    assert takes(None, given)


NODE: dict[str, Any] = {
    "$ref": "#/$defs/Node",
    "$defs": {
        "Node": {
            "type": "object",
            "properties": {
                "child": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]},
                "next": {"oneOf": [{"$ref": "#/$defs/Node"}, {"type": "boolean"}]},
                "parts": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
            },
            "required": ["child", "next", "parts"],
        }
    },
}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (NODE, {"child": None, "next": True, "parts": []}),
        (Form.model_json_schema(), {"number": 1, "share": 1, "steps": [{"kind": "a"}]}),
        ({"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a"]}, {"a": "text"}),
        ({"type": "string", "examples": ["Rome"]}, "Rome"),
        ({"type": ["null", "boolean"]}, None),
        ({"type": "string", "description": "Start date in YYYY-mm-dd format"}, "2026-01-01"),
        ({"const": 3}, 3),
        ({"allOf": [{"type": "integer", "minimum": 1900}]}, 1900),
        ({"type": "object"}, {}),
    ],
)
def test_an_example_fits_its_schema(schema: Any, expected: Any) -> None:
    found = example(schema, "text")
    assert found == expected
    assert fits(found, schema)
