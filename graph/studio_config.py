"""The settings as a client sees and sends them: LangGraph Studio draws its form from this model's JSON schema.

Beside the fields of `Context` there is a model and a prompt for each module, flat, since a form shows no tables; a
prompt is edited on the node that it belongs to, and stands there as it is. They end up in `models` and `prompts`, which
a program may send instead. What a client may not name is refused here (`graph.grants`), and so is a name that is no
setting: a misspelt `approve_tools` must not run unapproved.
"""

import re
from collections.abc import Mapping
from typing import Any, Self

from pydantic import ConfigDict, Field, JsonValue, model_validator

from agentflow.graph.context import MODULES, Context, Module
from agentflow.graph.grants import check_grants
from agentflow.graph.prompts import PLACEHOLDERS, Prompted, check
from agentflow.graph.toolbox import granted_tools
from agentflow.nodes import analyst, executor, generator, planner, verifier
from agentflow.tools.catalogue import STANDARD_TOOLS

NODES = {
    "tools": ["planner", "executor"],
    "approve_tools": ["executor"],
    "max_turns": ["verifier"],
    "memory_tokens": ["verifier"],
}
"""The nodes at which Studio shows a setting, other than those of a module."""


_OF_THE_SERVER = re.compile(r"(__|langgraph_|checkpoint_|x-).*|(thread|run|graph|assistant|user|cron)_id", re.DOTALL)
"""Names that LangGraph puts into `configurable`, which its server takes for a context where there is none."""


class _AnyName(dict[str, Any]):
    """A schema's properties, of which every name is one: LangGraph's server drops in silence what is none of them."""

    def __contains__(self, name: object) -> bool:
        return True


def _model(module: Module) -> Any:
    whose = "tools that need a model" if module == "tools" else module
    nodes: list[JsonValue] = ["executor" if module == "tools" else module]
    return Field(
        default="",
        title=f"Model of the {whose}",
        description=f"Model that the {whose} uses instead of the one above, written in the same way. Empty: that one.",
        json_schema_extra={"langgraph_nodes": nodes},
    )


def _prompt(module: Prompted, text: str) -> Any:
    nodes: list[JsonValue] = [module]
    return Field(
        default=text,
        title=f"Prompt of the {module}",
        description=f"System message of the {module}. Placeholders: {PLACEHOLDERS[module]}.",
        json_schema_extra={"langgraph_nodes": nodes, "langgraph_type": "prompt"},
    )


def _for_studio(schema: dict[str, Any]) -> None:
    """Adds to the schema what only a form has use for, and leaves out what it shows in another way."""
    fields = schema["properties"]
    for name in ("models", "prompts"):
        del fields[name]
    for name, nodes in NODES.items():
        fields[name]["langgraph_nodes"] = nodes
    choices = [*STANDARD_TOOLS, *granted_tools()]
    fields["tools"]["items"]["enum"] = choices
    fields["approve_tools"]["items"]["enum"] = ["*", *choices]


class StudioConfig(Context):
    """`Context` for a graph that is served."""

    model_config = ConfigDict(title="Settings", json_schema_extra=_for_studio)

    planner_model: str = _model("planner")
    executor_model: str = _model("executor")
    verifier_model: str = _model("verifier")
    generator_model: str = _model("generator")
    analyst_model: str = _model("analyst")
    tools_model: str = _model("tools")

    planner_prompt: str = _prompt("planner", planner.PROMPT)
    executor_prompt: str = _prompt("executor", executor.PROMPT)
    verifier_prompt: str = _prompt("verifier", verifier.PROMPT)
    generator_prompt: str = _prompt("generator", generator.PROMPT)
    analyst_prompt: str = _prompt("analyst", analyst.PROMPT)

    @classmethod
    def model_json_schema(cls, *arguments: Any, **settings: Any) -> dict[str, Any]:
        """The schema, by which the server hands on every setting that it is sent, for this model to refuse."""
        schema = super().model_json_schema(*arguments, **settings)
        return {**schema, "properties": _AnyName(schema["properties"])}

    @model_validator(mode="before")
    @classmethod
    def _without_the_servers_own(cls, sent: object) -> object:
        if not isinstance(sent, Mapping):
            return sent
        return {name: value for name, value in sent.items() if not _OF_THE_SERVER.fullmatch(name)}

    @model_validator(mode="after")
    def _fold(self) -> Self:
        """Puts the flat fields where the modules look for them."""
        models = {module: getattr(self, f"{module}_model") for module in MODULES}
        self.models |= {module: spec for module, spec in models.items() if spec}
        for module in PLACEHOLDERS:
            text, default = getattr(self, f"{module}_prompt"), type(self).model_fields[f"{module}_prompt"].default
            if text not in ("", default):
                check(module, text)
                self.prompts |= {module: text}
        return self

    @model_validator(mode="after")
    def _reaches_only_what_is_granted(self) -> Self:
        check_grants(self)
        return self
