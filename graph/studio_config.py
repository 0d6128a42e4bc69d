"""The settings as clients see and send them. LangGraph Studio builds its form from this model's JSON schema.

In addition to the fields of `Context`, there is a model and a prompt for each module, as flat fields since a form
cannot show tables. A prompt is edited at its node, where its current text is shown. These fields are merged into
`models` and `prompts`, which a program may send directly. URLs and files that are not granted are refused here
(`graph.grants`). So are unknown names, since a misspelt `approve_tools` must not run unapproved.
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
    "calibration": ["generator"],
    "abstain": ["generator"],
    "skip_verifier": ["verifier"],
    "memory_tokens": ["verifier"],
    "structured_output": ["planner", "executor", "verifier"],
}
"""The nodes at which Studio shows a setting, besides the settings of a module."""


_OF_THE_SERVER = re.compile(r"(__|langgraph_|checkpoint_|x-).*|(thread|run|graph|assistant|user|cron)_id", re.DOTALL)
"""Names that LangGraph adds to `configurable`, which its server passes as the context if there is none."""


class _AnyName(dict[str, Any]):
    """A schema's properties that accept every name.

    LangGraph's server would silently drop unknown settings otherwise.
    """

    def __contains__(self, name: object) -> bool:
        return True


def _model(module: Module) -> Any:
    whose = "tools that need a model" if module == "tools" else module
    nodes: list[JsonValue] = ["executor" if module == "tools" else module]
    return Field(
        default="",
        title=f"Model of the {whose}",
        description=f"Model of the {whose}, written in the same way. Empty: the model above.",
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
    """Add data for Studio's form to the schema, and remove fields that the form shows in another way."""
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
        """Return the schema. It makes the server pass on every setting that it receives, for this model to refuse."""
        schema = super().model_json_schema(*arguments, **settings)
        return {**schema, "properties": _AnyName(schema["properties"])}

    @model_validator(mode="before")
    @classmethod
    def _without_the_servers_own(cls, sent: object) -> object:
        if not isinstance(sent, Mapping):
            return sent
        return {name: value for name, value in sent.items() if not _OF_THE_SERVER.fullmatch(name)}

    @model_validator(mode="after")
    def _checked(self) -> Self:
        """Merge the flat fields into `models` and `prompts`, and refuse what is not granted before it is read."""
        models = {module: getattr(self, f"{module}_model") for module in MODULES}
        self.models |= {module: spec for module, spec in models.items() if spec}
        for module in PLACEHOLDERS:
            text, default = getattr(self, f"{module}_prompt"), type(self).model_fields[f"{module}_prompt"].default
            if text not in ("", default):
                check(module, text)
                self.prompts |= {module: text}
        check_grants(self)
        self.check_promises()
        return self
