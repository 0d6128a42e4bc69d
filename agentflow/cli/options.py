"""Options that several commands share, and their validation before a run starts."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from agentflow.cli.group import FAILED, MISUSED, fail
from agentflow.console.terminal import console
from agentflow.tools.search_settings import ENGINES

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from agentflow.evals.agent_names import AgentName
    from agentflow.graph.agent import Agent
    from agentflow.graph.context import Context

Model = Annotated[
    str, typer.Option(metavar="SPEC", help="Model of every module: embedded, provider:model, or provider:model@URL.")
]
ContextFile = Annotated[
    Path | None,
    typer.Option(
        "--context", metavar="FILE", help="Settings as a JSON object, over the options: prompts and any other field."
    ),
]
Planner = Annotated[str | None, typer.Option(metavar="SPEC", help="Model of the planner, if not --model.")]
Tools = Annotated[
    str | None,
    typer.Option(metavar="a,b", help="Tools by name, your own by module:attribute or mcp:...; see agentflow tools."),
]
MaxSeconds = Annotated[float, typer.Option(help="Time for the run, answer included.")]
Approve = Annotated[
    str | None, typer.Option(metavar="a,b", help="Tools whose calls you approve, edit or refuse; * for all.")
]
TraceFile = Annotated[Path | None, typer.Option(help="Append the trace to this file, for agentflow view.")]
MaxTurns = Annotated[int, typer.Option(min=1, max=100, help="Most turns of a run.")]
MaxTokens = Annotated[
    int | None, typer.Option(min=1, help="Longest reply of every module, in tokens; a longer one is cut off.")
]
MemoryTokens = Annotated[
    int, typer.Option(min=200, help="Tokens that tool results may take in memory; with a reply, less than the context.")
]
StructuredOutput = Annotated[
    Literal["auto", "always", "off"],
    typer.Option(help="Have the server enforce the form of plans, calls and verdicts: auto if one cannot be read."),
]
Corpus = Annotated[
    str,
    typer.Option(
        help="Encyclopedia of wikipedia_search: live, package, atlas, an index's path, http://HOST:PORT/retrieve; "
        "auto: what the planner knows."
    ),
]
SearchEngine = Annotated[
    str,
    typer.Option(
        metavar="SPEC",
        help=f"Search engine of google_search: {', '.join(ENGINES)}; auto: the first one whose key is set.",
    ),
]
Checkpoints = Annotated[
    str | None,
    typer.Option(
        metavar="SPEC", help="Where threads are kept: sqlite:PATH or postgres://...; a file of the user's by default."
    ),
]
SearchCache = Annotated[
    str, typer.Option(metavar="MODE[:FILE]", help="Cache of search results: off, use, record, or replay offline.")
]
Tracing = Annotated[
    str | None,
    typer.Option(
        metavar="TO",
        envvar="AGENTFLOW_TRACING",
        help="Where to send traces: langsmith[:PROJECT], otel[:http://HOST:4318], or both with a comma.",
    ),
]
TracingContent = Annotated[
    bool, typer.Option("--tracing-content", help="Put prompts, answers and tool results into OpenTelemetry's spans.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Log = Annotated[str | None, typer.Option(metavar="FILE", help="Append a log as lines of JSON; - is stderr.")]
Prices = Annotated[
    list[str] | None,
    typer.Option("--price", metavar="MODEL=READ/WRITTEN", help="Dollars for a million tokens of a model."),
]


def context_of(
    model: str, planner: str | None, tools: str | None, file: Path | None = None, /, **limits: Any
) -> "Context":
    """Return the run's settings; ends the command if a tool, a key or a model is missing.

    `limits` are other fields of the context, and `max_tokens`, the longest reply of every module. The fields in `file`
    are taken in place of all others.
    """
    from pydantic import ValidationError

    from agentflow.graph.context import DEFAULT_TOOLS, Context
    from agentflow.tools.catalogue import STANDARD_TOOLS, availability
    from agentflow.tools.expected import expected
    from agentflow.tools.external import is_external

    names = list(DEFAULT_TOOLS if tools is None else names_in(tools))
    models = {} if planner is None else {"planner": planner}
    limits["sampling"] = with_max_tokens(limits.pop("max_tokens", None), limits.get("sampling", {}))
    try:
        fields = {"model": model, "models": models, "tools": names, **limits, **_fields_of(file)}
        context = Context.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        field = str(first["loc"][0])
        where = f"--context {file}, {field}" if field in _fields_of(file) else f"--{field.replace('_', '-')}"
        fail(f"{where}: {expected(first)}", MISUSED)
    for name in context.tools:
        if not is_external(name) and (problem := availability(name, context.search)):
            fail(f"{name} cannot be used: {problem}" if name in STANDARD_TOOLS else problem, MISUSED)
    _load_models(context)
    _load_external(context)
    return context


def _fields_of(file: Path | None) -> dict[str, Any]:
    """Return the fields of a file of settings, {} without one; ends the command if it cannot be read."""
    if file is None:
        return {}
    try:
        found = json.loads(file.read_bytes())
    except OSError as error:
        fail(f"--context {file} cannot be read ({error.strerror})", MISUSED)
    except ValueError as error:
        fail(f"--context {file} is no JSON ({error})", MISUSED)
    if not isinstance(found, dict):
        fail(f"--context {file} is no JSON object of settings", MISUSED)
    return found


def with_max_tokens(max_tokens: int | None, sampling: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return `sampling` by module with the longest reply of every module."""
    from agentflow.graph.context import MODULES

    if max_tokens is None:
        return dict(sampling)
    return {module: {"max_tokens": max_tokens, **sampling.get(module, {})} for module in MODULES}


def agent_of(
    context: "Context", name: "AgentName" = "agentflow", checkpointer: "BaseCheckpointSaver[Any] | None" = None
) -> "Agent":
    """Build the agent for the context. External tools named on the command line are thereby granted."""
    from agentflow.evals.agents import agent_graph
    from agentflow.tools.external import is_external

    return agent_graph(name, [spec for spec in context.tools if is_external(spec)], checkpointer)


def _load_external(context: "Context") -> None:
    """Import external tools and start their servers, which stay up for the run; ends the command if one fails."""
    from agentflow.checks.tools import examine
    from agentflow.graph.models.spec import ModelError
    from agentflow.tools.external import is_external

    if not any(map(is_external, context.tools)):
        return
    try:
        with console(stderr=True).status("the tools are being loaded"):
            found = asyncio.run(examine(context))
    except ModelError as error:
        fail(str(error), MISUSED)
    for spec, problem in found.unavailable.items():
        fail(f"{spec} cannot be used: {problem}", MISUSED)


def _load_models(context: "Context") -> None:
    from agentflow.graph.context import MODULES
    from agentflow.graph.models.embeddings import load_embeddings
    from agentflow.graph.models.loading import load_model
    from agentflow.graph.models.spec import ModelError

    try:
        if context.embeddings:
            load_embeddings(context.embeddings)
        for module in MODULES:
            load_model(context.model_name_of(module), context.sampling_of(module))
    except ModelError as error:
        fail(str(error), MISUSED if error.configuration else FAILED)


def names_in(tools: str, option: str = "--tools") -> tuple[str, ...]:
    """Split a comma-separated list into unique names; ends the command if there are none."""
    if names := tuple(dict.fromkeys(name.strip() for name in tools.split(",") if name.strip())):
        return names
    fail(f"{option} names no tool; see agentflow tools", MISUSED)
