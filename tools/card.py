"""The planner-facing card of a tool: what it is good for, its limits, examples (DESIGN decision 5).

A tool carries its card in `tool.metadata["agentflow"]`; any other LangChain tool gets one from its description and
schema, so that it plugs in unchanged.
"""

import json
from typing import Any

from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel, Field

MAX_DESCRIPTION = 600
"""Characters of a foreign tool's description that the planner sees: a card stays well under 400 tokens."""

MAX_ARGUMENT_DESCRIPTION = 200
"""Characters of an argument's description, likewise."""


class ToolCard(BaseModel):
    """Everything that a prompt says of a tool."""

    name: str
    description: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    """JSON schema of the arguments: `properties` and `required`."""
    limits: str = ""
    examples: list[dict[str, Any]] = Field(default_factory=list)
    """Arguments of good calls."""

    def examples_as_json(self) -> list[str]:
        """One line per example."""
        return [json.dumps(example, ensure_ascii=False) for example in self.examples]

    def describe_arguments(self) -> list[str]:
        """One line per argument: name, type, whether it may be left out, and what it is."""
        required = self.arguments.get("required", [])
        lines = []
        for name, schema in self.arguments.get("properties", {}).items():
            optional = "" if name in required else ", optional"
            description = str(schema.get("description", ""))[:MAX_ARGUMENT_DESCRIPTION]
            lines.append(f"- {name} ({_type(schema)}{optional}): {description}".rstrip(": "))
        return lines

    @classmethod
    def of(cls, tool: BaseTool) -> "ToolCard":
        """The card of any LangChain tool: its own where it has one, else read off its description and schema."""
        function = convert_to_openai_tool(tool)["function"]
        own = (tool.metadata or {}).get("agentflow", {})
        description = str(own.get("description") or function.get("description") or tool.name)
        return cls(
            name=tool.name,
            description=description.strip()[:MAX_DESCRIPTION],
            arguments=function.get("parameters") or {"type": "object", "properties": {}},
            limits=own.get("limits", ""),
            examples=own.get("examples", []),
        )


def _type(schema: dict[str, Any]) -> str:
    """A JSON schema's type in a word or two."""
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    if "anyOf" in schema:
        return " | ".join(_type(option) for option in schema["anyOf"])
    kind = schema.get("type", "any")
    return " | ".join(map(str, kind)) if isinstance(kind, list) else str(kind)
