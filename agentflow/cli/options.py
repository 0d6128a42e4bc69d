"""Options that several commands share, and the settings of a run that they make.

A new option of every run is a field of `RunOptions` that `RunOptions.fields` names as a field of the context.
"""

import asyncio
import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentflow.cli.group import MISUSED, fail
from agentflow.cli.option_groups import OptionGroup
from agentflow.console.terminal import console
from agentflow.tools.json_codec import from_json

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from agentflow.graph.agent import Agent
    from agentflow.graph.context import Context

Model = Annotated[
    str, typer.Option(metavar="SPEC", help="Model of every module: embedded, provider:model, or provider:model@URL.")
]
Tools = Annotated[
    str | None,
    typer.Option(metavar="a,b", help="Tools by name, your own by module:attribute or mcp:...; see agentflow tools."),
]
Corpus = Annotated[
    str,
    typer.Option(
        help="Encyclopedia of wikipedia_search: live, atlas, an index's path, http://HOST:PORT/retrieve; "
        "auto: what the planner knows."
    ),
]
MaxTurns = Annotated[int, typer.Option(min=1, max=100, help="Most turns of a run.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--context",
        metavar="KEY=VALUE|FILE",
        help="Any setting, which overrides the options: models.verifier=SPEC, memory_tokens=4096, max_tokens=512; "
        "or a JSON file of them.",
    ),
]
Checkpoints = Annotated[
    str | None,
    typer.Option(
        metavar="SPEC", help="File of SQLite in which threads are kept: sqlite:PATH; by default one of the user's."
    ),
]
Tracing = Annotated[
    str | None,
    typer.Option(
        metavar="TO",
        envvar="AGENTFLOW_TRACING",
        help="Where to send traces: langsmith[:PROJECT], otel[:http://HOST:4318] or otel:FILE.jsonl.",
        rich_help_panel="Output",
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object and nothing else.", rich_help_panel="Output")
]
Prices = Annotated[
    list[str] | None,
    typer.Option(
        "--price",
        metavar="MODEL=READ/WRITTEN",
        help="Dollars for a million tokens of a model.",
        rich_help_panel="Output",
    ),
]


@dataclass
class PlannerlessOptions(OptionGroup):
    """Settings of a run beside its planner."""

    PANEL = "Agent"

    model: Model = "embedded"
    tools: Tools = None
    corpus: Corpus = "auto"
    max_turns: MaxTurns = 10
    context: Overrides = None

    def fields(self) -> dict[str, Any]:
        """Return the fields of the context that the options set."""
        found = {"model": self.model, "corpus": self.corpus, "max_turns": self.max_turns}
        return found if self.tools is None else {**found, "tools": list(names_in(self.tools))}

    def build(self, **fields: Any) -> "Context":
        """Return the context of the options, and of `fields` over them; ends the command if it cannot be used."""
        return context_of({**self.fields(), **fields}, self.context or ())


@dataclass
class RunOptions(PlannerlessOptions):
    """Settings of a run."""

    planner: Annotated[str | None, typer.Option(metavar="SPEC", help="Model for the planner alone.")] = None

    def fields(self) -> dict[str, Any]:
        """Return the fields of the context that the options set."""
        return super().fields() | ({} if self.planner is None else {"models": {"planner": self.planner}})


@dataclass
class AttendedOptions(RunOptions):
    """Settings of a run that a person waits for."""

    max_seconds: Annotated[float, typer.Option(help="Time for the run, answer included.")] = 300.0
    approve: Annotated[
        str | None, typer.Option(metavar="a,b", help="Tools whose calls you approve, edit or refuse; * for all.")
    ] = None

    abstain: Annotated[
        float | None,
        typer.Option(help="Withhold an answer unless this share of such answers is right, as in 0.9."),
    ] = None
    calibration: Annotated[
        str,
        typer.Option(
            metavar="FILE", help="Where confidence is from: a file of agentflow calibrate; off; auto: the model's own."
        ),
    ] = "auto"

    def fields(self) -> dict[str, Any]:
        """Return the fields of the context that the options set."""
        approved = [] if self.approve is None else list(names_in(self.approve, "--approve"))
        limits = {"max_seconds": self.max_seconds, "approve_tools": approved}
        limits |= {"abstain": self.abstain, "calibration": self.calibration}
        return super().fields() | limits


@dataclass
class KeepingOptions(OptionGroup):
    """Where a run is kept."""

    PANEL = "Keeping and resuming"

    thread: Annotated[
        str | None, typer.Option(help="Keep the run or the conversation under this name, to continue it.")
    ] = None
    checkpoints: Checkpoints = None
    trace: Annotated[Path | None, typer.Option(help="Append the trace to this file, for agentflow view.")] = None


def context_of(fields: dict[str, Any], overrides: Sequence[str] = ()) -> "Context":
    """Return the validated context; also ends the command if a tool, a key or a model is missing."""
    from agentflow.tools.catalogue import STANDARD_TOOLS, availability
    from agentflow.tools.external import is_external

    context = validated(fields, overrides)
    for name in context.tools:
        if not is_external(name) and (problem := availability(name, context.search)):
            fail(f"{name} cannot be used: {problem}" if name in STANDARD_TOOLS else problem, MISUSED)
    _load_models(context)
    _load_external(context)
    return context


def validated(fields: dict[str, Any], overrides: Sequence[str] = ()) -> "Context":
    """Return the context of `fields`, with the values of --context over them; ends the command if one is wrong.

    `max_tokens`, the longest reply of every module, counts as a field.
    """
    from pydantic import ValidationError

    from agentflow.graph.context import Context
    from agentflow.tools.expected import expected

    changed = _overridden(fields, overrides)
    try:
        return Context.model_validate(_with_max_tokens({**fields, **changed}))
    except ValidationError as error:
        first = error.errors()[0]
        if not first["loc"]:  # several fields together
            fail(expected(first), MISUSED)
        field = str(first["loc"][0])
        where = f"--context {field}" if field in changed or field == "sampling" else f"--{field.replace('_', '-')}"
        fail(f"{where}: {expected(first)}", MISUSED)


def _overridden(fields: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Return the fields that the values of --context change: all of a file, or one by its dotted name."""
    changed: dict[str, Any] = {}
    for text in overrides:
        key, equals, value = text.partition("=")
        if not equals or Path(text).is_file():
            changed.update(_fields_of(Path(text)))
            continue
        name, *inner = key.split(".")
        changed[name] = _replaced(changed.get(name, fields.get(name)), inner, _value(value))
    return changed


def _replaced(whole: Any, path: Sequence[str], value: Any) -> Any:
    """Return `whole`, a value of nested objects, with the value at `path` replaced."""
    if not path:
        return value
    inner = whole if isinstance(whole, dict) else {}
    return {**inner, path[0]: _replaced(inner.get(path[0]), path[1:], value)}


def _value(text: str) -> Any:
    """Return the value of JSON, or the text itself."""
    try:
        return from_json(text)
    except ValueError:
        return text


def _fields_of(file: Path) -> dict[str, Any]:
    """Return the fields of a file of settings; ends the command if it cannot be read."""
    try:
        found = from_json(file.read_bytes())
    except OSError as error:
        fail(f"--context {file} cannot be read ({error.strerror}); write KEY=VALUE, or name a JSON file", MISUSED)
    except ValueError as error:
        fail(f"--context {file} is no JSON ({error})", MISUSED)
    if not isinstance(found, dict):
        fail(f"--context {file} is no JSON object of settings", MISUSED)
    return found


def _with_max_tokens(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields with `max_tokens` as the sampling of every module that sets none of its own."""
    from agentflow.graph.context import MODULES

    found = dict(fields)
    limit, sampling = found.pop("max_tokens", None), found.get("sampling", {})
    if limit is not None and isinstance(sampling, dict):
        own = {module: sampling.get(module, {}) for module in MODULES}
        limited = {module: {"max_tokens": limit, **one} for module, one in own.items() if isinstance(one, dict)}
        found["sampling"] = sampling | limited
    return found


def agent_of(context: "Context", checkpointer: "BaseCheckpointSaver[Any] | None" = None) -> "Agent":
    """Build the agent for the context. External tools named on the command line are thereby granted."""
    from agentflow.evals.agents import agent_graph
    from agentflow.tools.external import is_external

    return agent_graph("agentflow", [spec for spec in context.tools if is_external(spec)], checkpointer)


def _load_external(context: "Context") -> None:
    """Import external tools and start their servers, which stay up for the run; ends the command if a spec has none."""
    from agentflow.checks.doctor import examine
    from agentflow.tools.external import is_external

    if not any(map(is_external, context.tools)):
        return
    with console(stderr=True).status("the tools are being loaded"):
        found = asyncio.run(examine(context))
    for spec, problem in found.unavailable.items():
        if spec in context.tools:  # else it is one server of a file, of which the run warns
            fail(f"{spec} cannot be used: {problem}", MISUSED)


def _load_models(context: "Context") -> None:
    from agentflow.graph.context import MODULES
    from agentflow.graph.models.loading import load_model

    for module in MODULES:
        load_model(context.model_name_of(module), context.sampling_of(module))


def check_training(what: str) -> None:
    """End the command if the packages of the extra `train` are missing; `what` needs them."""
    from agentflow.checks import doctor

    _, works, says = doctor.training()
    if works != "ok":
        fail(f"{what} {says}", MISUSED)


def names_in(tools: str, option: str = "--tools") -> tuple[str, ...]:
    """Split at commas outside of "quotes" into unique names; ends the command if there are none."""
    parts = next(csv.reader([" ".join(tools.splitlines())], skipinitialspace=True), [])
    if names := tuple(dict.fromkeys(name.strip() for name in parts if name.strip())):
        return names
    fail(f"{option} names no tool; see agentflow tools", MISUSED)
