"""Structured output: replies in a form that the server enforces while it samples.

A form is given twice, since servers differ: as a regular expression for the lines that the prompt asks for, which vLLM
enforces, and as a JSON schema, which most servers do. Both are fields of the request. Whether a server supports one is
found out by sending it: a server that does not either refuses the request or ignores the field.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from pydantic_core import from_json

WORD = 8
"""Characters that a JSON form allows for a word and its space: without a bound a small model fills a value for ever."""


@dataclass(frozen=True)
class ReplyForm:
    """The form of a module's reply."""

    name: str
    schema: Mapping[str, Any]
    """JSON schema of a reply that is an object."""
    readable: Callable[[str], bool]
    """Returns whether the module can parse a reply."""
    regex: str = ""
    """Pattern of a reply in lines; empty if the module asks for JSON."""

    @classmethod
    def of_lines(cls, name: str, lines: Mapping[str, int | Sequence[str]], readable: Callable[[str], bool]) -> Self:
        """Return the form of a reply of lines `Label: value`.

        The value of a label in `lines` is its maximum number of words, which ends repetitions, or the texts that it may
        have. Servers compile a bound on words in a fraction of a second, and one on characters in many.
        """
        schema = {
            "type": "object",
            "properties": {
                label: {"type": "string", "maxLength": WORD * value} if isinstance(value, int) else {"enum": [*value]}
                for label, value in lines.items()
            },
            "required": [*lines],
            "additionalProperties": False,
        }
        return cls(name, schema, readable, "\n".join(f"{label}: {_pattern(value)}" for label, value in lines.items()))

    def requests(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield each way to request the form: the name of its field, and the fields of the request."""
        if self.regex:
            yield "structured_outputs", {"structured_outputs": {"regex": self.regex}}
        schema = {"name": self.name, "schema": dict(self.schema)}
        yield "response_format", {"response_format": {"type": "json_schema", "json_schema": schema}}


def whole_fields(text: str) -> str:
    """Return the texts that are whole of a JSON object that was cut off, as JSON; "" if there is none."""
    try:
        found = from_json(text, allow_partial=True)  # half a text is left out; half a number looks like a whole one
    except ValueError:
        return ""
    whole = {name: value for name, value in found.items() if isinstance(value, str)} if isinstance(found, dict) else {}
    return json.dumps(whole, ensure_ascii=False) if whole else ""


def _pattern(value: int | Sequence[str]) -> str:
    words = r"[^ \n]+( [^ \n]+){0,%d}"
    return words % (value - 1) if isinstance(value, int) else f"({'|'.join(map(re.escape, value))})"
