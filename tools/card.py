"""The card of a tool, shown to the planner: its purpose, limits and examples.

A tool carries its card in `tool.metadata["agentflow"]`: `description`, `limits`, `examples`, `side_effects`,
`takes_step`, `takes_question`, each optional. Missing fields are taken from the tool's own description: its purpose,
and lines "Limits: ..." and "Example: {...}". If there is no example, one is generated from the schema. So any LangChain
tool can be used unchanged.

A card is bounded in size and its texts cannot add lines to a prompt, since the tool's author may be a remote server.
"""

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel, Field

from agentflow.tools.json_codec import object_from_json
from agentflow.tools.quiet import without_warnings
from agentflow.tools.redaction import redacted
from agentflow.tools.untrusted_text import bounded_line

RUN = "tools"
"""Declared in `metadata["agentflow"]["model"]`: the tool asks the run's model for tools."""
UNKNOWN = "unknown"
"""Model of a tool that declares none, as those of MCP servers and third parties."""

_BYTES = {"name": 96, "description": 480, "limits": 180, "example": 140, "type": 300, "argument": 200, "arguments": 800}
"""Bytes per part. Longer texts end in "…"; longer examples are left out."""

_DEPTH = 3
"""Levels of a nested schema that are shown."""

_SECTION = re.compile(r"^[ \t]*(args|arguments|parameters|returns|raises|yields)[ \t]*:[ \t]*$", re.I | re.M)
_ARGUMENT = re.compile(r"^([ \t]*)(\w+)(?:[ \t]*\([^()\n]*\))?[ \t]*:[ \t]*(\S.*(?:\n\1[ \t]+\S.*)*)", re.M)
"""A line `name (type): text` of such a section, and those that continue it."""
_LIMITS = re.compile(r"^[ \t]*(?:limits|limitations?)[ \t]*:[ \t]*(\S.*)$", re.I | re.M)
_EXAMPLE = re.compile(r"^[ \t]*examples?[ \t]*:[ \t]*(\{.*\})[ \t]*$", re.I | re.M)
_PLACEHOLDERS: dict[str, object] = {
    "string": "...",
    "integer": 1,
    "number": 1.0,
    "boolean": True,
    "array": [],
    "object": {},
}


class ToolCard(BaseModel):
    """The information about a tool that prompts show."""

    name: str
    description: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    """JSON schema of the arguments: `properties` and `required`."""
    limits: str = ""
    examples: list[dict[str, Any]] = Field(default_factory=list)
    """Arguments of good calls."""
    side_effects: bool = True
    """True if a call changes anything outside the run, so that it must not be repeated by accident. True unless the
    tool declares otherwise.
    """
    takes_step: str = ""
    """Name of an argument that takes the planner's whole step, as it is written, in place of its input alone."""
    takes_question: bool = False
    """True if it finds passages for a whole question, and is no lookup by name: in the lean profile, it opens a run."""
    made_up: bool = False
    """True if the example is generated and only shows the form of a call. It must not be executed."""

    def examples_as_json(self) -> list[str]:
        """Return one line per example."""
        return [json.dumps(example, ensure_ascii=False) for example in self.examples]

    @property
    def text_argument(self) -> str:
        """The name of the tool's argument if it has only one and that is text, else ""."""
        properties: dict[str, dict[str, Any]] = self.arguments.get("properties", {})
        name, schema = next(iter(properties.items()), ("", {}))
        return name if len(properties) == 1 and schema.get("type") == "string" and "enum" not in schema else ""

    @property
    def takes_program(self) -> bool:
        """True if the tool's only argument is a program in Python."""
        return self.text_argument == "code"

    def describe_input(self) -> str:
        """Return what the tool's only argument is."""
        if self.takes_program:
            return "one complete program in a ```python block, which prints its result"
        return _cut(str(self.arguments["properties"][self.text_argument].get("description", "")), "argument")

    def describe_arguments(self) -> list[str]:
        """Return one line per argument: name, type, whether it is optional, and its description.

        If that is too long, descriptions are left out and required arguments come first, then types are shortened. If
        it still is, as many as fit.
        """
        properties, required = _fields(self.arguments)
        names, lines = [*properties], list[str]()
        for kind, described in (("type", True), ("type", False), ("name", False)):
            lines = [_describe(name, self.arguments, kind, described) for name in names]
            if _bytes("\n".join(lines)) <= _BYTES["arguments"]:
                return lines
            names = [*required, *(name for name in properties if name not in required)]
        sizes = accumulate(_bytes(line) + 1 for line in lines)
        fitting = [line for line, size in zip(lines, sizes, strict=True) if size <= _BYTES["arguments"]]
        return fitting if len(fitting) == len(lines) else [*fitting, f"… and {len(lines) - len(fitting)} more"]

    @classmethod
    def of(cls, tool: BaseTool) -> "ToolCard":
        """Return the card of any LangChain tool, from its metadata or else from its description and schema."""
        function = convert_to_openai_tool(tool)["function"]
        own = (tool.metadata or {}).get("agentflow")
        own = own if isinstance(own, dict) else {}
        documented = str(function.get("description") or "")
        schema = _documented(parameters(tool), documented)
        limits = str(own.get("limits") or "; ".join(_LIMITS.findall(documented)))
        examples = [*_examples(own, documented, schema)]
        return cls(
            name=tool.name,
            description=_cut(
                str(own.get("description") or _purpose(documented) or _spelt_out(tool.name)), "description"
            ),
            arguments=schema,
            limits=_cut(limits, "limits"),
            examples=examples or _illustration(schema),
            side_effects=own.get("side_effects") is not False,
            takes_step=str(own.get("takes_step") or ""),
            takes_question=own.get("takes_question") is True,
            made_up=not examples,
        )


def parameters(tool: BaseTool) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments, with its fields as `_fields` returns them."""
    schema = convert_to_openai_tool(tool)["function"].get("parameters") or {"type": "object"}
    properties, required = _fields(schema)
    return {**schema, "properties": properties, "required": required}


def _fields(schema: dict[str, Any]) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Return a schema's properties, an object for each, and the names among them that are required. A server may write
    null for either, or a boolean for a property.
    """
    properties, required = schema.get("properties"), schema.get("required")
    items = properties.items() if isinstance(properties, dict) else ()
    known = {str(name): given if isinstance(given, dict) else {} for name, given in items}
    return known, [name for name in map(str, required if isinstance(required, list) else []) if name in known]


def _documented(schema: dict[str, Any], text: str) -> dict[str, Any]:
    """Return the schema, where it describes no argument with what the sections of a docstring say of it."""
    _, *sections = _SECTION.split(text)
    documented = [part for title, part in zip(sections[::2], sections[1::2], strict=True) if title[0] in "AaPp"]
    said = {name: {"description": line} for _, name, line in _ARGUMENT.findall("\n".join(documented))}
    return {**schema, "properties": {name: said.get(name, {}) | given for name, given in schema["properties"].items()}}


def _examples(own: dict[str, Any], documented: str, schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the examples of the metadata, else of the description, else of the schema. Long ones are skipped."""
    written: list[Any] = [object_from_json(text) for text in _EXAMPLE.findall(documented)]
    given = own.get("examples") or written or schema.get("examples")
    yield from (example for example in (given if isinstance(given, list) else []) if _can_be_shown(example))


def _can_be_shown(example: object) -> bool:
    try:
        text = json.dumps(example, ensure_ascii=False)
    except (TypeError, ValueError):
        return False
    short = _bytes(text) <= _BYTES["example"]
    return isinstance(example, dict) and short and text == bounded_line(text, len(text))


def _illustration(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """Return an example call with the required arguments, with values from the schema where it has some."""
    shown = _value({"properties": schema["properties"], "required": schema["required"]}, _DEPTH + 1)
    return [shown] if isinstance(shown, dict) and _can_be_shown(shown) else []


def _value(schema: object, depth: int) -> object:
    schema = schema if isinstance(schema, dict) else {}
    for key in ("examples", "enum"):
        if isinstance(schema.get(key), list) and schema[key]:
            return schema[key][0]
    properties, required = _fields(schema)
    if "default" not in schema and depth:
        if isinstance(schema.get("anyOf"), list) and schema["anyOf"]:
            return _value(schema["anyOf"][0], depth - 1)
        if required:  # more are too long for an example
            return {name: _value(properties[name], depth - 1) for name in required[: _BYTES["example"] // 7]}
        if schema.get("items"):
            return [_value(schema["items"], depth - 1)]
    return schema.get("default", _PLACEHOLDERS.get(str(schema.get("type")), "..."))


def _purpose(documented: str) -> str:
    """Return the part of a description before its arguments, limits and examples."""
    return _EXAMPLE.sub("", _LIMITS.sub("", _SECTION.split(documented)[0])).strip()


def _spelt_out(name: str) -> str:
    words = re.sub(r"[\W_]+", " ", name).strip()
    return f"{words[:1].upper()}{words[1:]}."


def _describe(name: str, whole: dict[str, Any], kind: str, described: bool) -> str:
    schema, optional = whole["properties"][name], "" if name in whole.get("required", []) else ", optional"
    description = _cut(str(schema.get("description", "")), "argument") if described else ""
    return f"- {bounded_line(name, 64)} ({_cut(_type(schema, _DEPTH), kind)}{optional}): {description}".rstrip(": ")


def _type(schema: object, depth: int) -> str:
    """Return a JSON schema's type in few words, with the types of its parts down to that depth."""
    schema = schema if isinstance(schema, dict) else {}
    if isinstance(schema.get("enum"), list):
        return _joined(map(json.dumps, schema["enum"]), " | ")
    if isinstance(schema.get("anyOf"), list) and depth:
        return _joined((_type(option, depth - 1) for option in schema["anyOf"]), " | ")
    properties, required = _fields(schema)
    if properties and depth:
        fields = (f"{name}{'?' * (name not in required)}: {_type(properties[name], depth - 1)}" for name in properties)
        return f"{{{_joined(fields, ', ')}}}"
    if schema.get("items") and depth:
        return f"list of {_type(schema['items'], depth - 1)}"
    kind = schema.get("type", "any")
    return _joined(map(str, kind), " | ") if isinstance(kind, list) else str(kind)


def _joined(parts: Iterable[str], separator: str) -> str:
    """Join parts up to the length that is shown of a type: schemas that refer to each other are beyond any length."""
    text = ""
    for part in parts:
        text += f"{separator if text else ''}{part}"
        if len(text) > _BYTES["type"]:
            break
    return text or "any"


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _cut(text: str, part: str) -> str:
    """Return `text` on one line of at most the bytes of that part."""
    line = bounded_line(text, len(text) + 1)
    if _bytes(line) <= _BYTES[part]:
        return line
    return redacted(line).encode("utf-8", "replace")[: _BYTES[part] - 3].decode("utf-8", "ignore").rstrip() + "…"


def tool_with_card(
    name: str, card: Mapping[str, Any], model: str, run: Callable[..., Awaitable[Any]], **more: Any
) -> BaseTool:
    """Return a built-in tool that shows `card`. The annotations of `run` describe its arguments."""
    description, metadata = str(card["description"]), {"agentflow": {**card, "model": model}}
    with without_warnings(DeprecationWarning):  # of Pydantic, on how LangChain makes the schema
        return StructuredTool.from_function(
            coroutine=run, name=name, description=description, metadata=metadata, **more
        )


def model_behind(tool: BaseTool) -> str:
    """Return the language model that a tool declares, which an evaluation reports: `RUN`, "" for none, or a name."""
    own = (tool.metadata or {}).get("agentflow")
    declared = own.get("model") if isinstance(own, dict) else None
    return bounded_line(declared, 120) if isinstance(declared, str) else UNKNOWN
