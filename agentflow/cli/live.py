"""`agentflow serve --learn`: serve an agent whose planner learns from its answers' scores."""

import json
import os
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentflow.cli.group import MISUSED, fail
from agentflow.cli.listening import listen, serve_at, url_of
from agentflow.cli.option_groups import OptionGroup
from agentflow.cli.options import Overrides, agent_of, check_training, context_of

if TYPE_CHECKING:
    from agentflow.rl.live.journal import VersionDecision


@dataclass
class LearningOptions(OptionGroup):
    """How the planner of a served agent learns, and the settings of that agent."""

    PANEL = "Learning"

    folder: Annotated[
        Path | None,
        typer.Option(
            "--learn",
            metavar="DIRECTORY",
            help="Serve the agent with this planner, which learns from scores; its records.",
        ),
    ] = None
    held_out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Tasks on which a new version must not be worse, for --learn.")
    ] = None
    batch: Annotated[int, typer.Option(min=1, help="Confirmed questions from which a version is trained.")] = 24
    training: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Setting of the trainings; again for more."),
    ] = None
    model: Annotated[str, typer.Option(metavar="SPEC", help="Model of the modules beside the planner that learns.")] = (
        "embedded:seed"
    )
    context: Overrides = None


def serve_learning(learning: LearningOptions, spec: str, host: str, port: int, key: str, needs_key: str) -> None:
    """Serve the agent, with the planner `spec` as version 0, until interrupted."""
    check_training("--learn")
    from agentflow.rl.live.journal import Traffic
    from agentflow.rl.live.learner import Learner, LearningSettings, used_ids
    from agentflow.rl.live.server import LiveAgent
    from agentflow.rl.live.versions import Versions
    from agentflow.rl.micro.chat_model import SHIPPED, TRAINED
    from agentflow.rl.settings import TrainingSettings, compose_settings

    assert learning.folder
    assert learning.held_out
    fields = {"model": learning.model, "models": {"planner": spec}, "max_turns": 6}
    context = context_of(fields, learning.context or ())
    _check_held_out(learning.held_out)
    TrainingSettings.of(compose_settings("atlas-cpu", learning.training or []))  # says which setting is wrong
    model = spec.partition(":")[2]
    folder = learning.folder.absolute()
    settings = LearningSettings(
        folder=folder,
        held_out=learning.held_out.absolute(),
        context=context,
        start=SHIPPED.get(model, Path(model).expanduser().absolute()) if model else TRAINED,
        batch=learning.batch,
        training=learning.training or [],
    )
    listening = listen(host, port, needs_key)
    with ExitStack() as stack, listening:
        versions = Versions(folder, _print)
        stack.callback(versions.close)
        traffic = Traffic(folder, used_ids(folder))
        stack.callback(traffic.close)
        learner = Learner(settings, traffic, versions)
        learner.load(versions.current)
        live = LiveAgent(agent_of(context), learner, versions, traffic, key)
        url = f"{url_of(host, listening)}/v1"
        typer.echo(f"serving the agent with version {versions.current} of its planner at {url} (Ctrl-C ends it)")
        typer.echo(f"scores go to {url}/feedback, decisions to {folder}/decisions.jsonl")
        asked = json.dumps({"messages": [{"role": "user", "content": "How many feet are 3 yards?"}]})
        header = ' -H "Authorization: Bearer $AGENTFLOW_SERVE_KEY"' if key else ""
        typer.echo(f"try: curl {url}/chat/completions -d '{asked}'{header}")
        serve_at(listening, live.app())


def _print(decision: "VersionDecision") -> None:
    made = f"version {decision.version}: {decision.outcome}"
    with suppress(OSError):  # whoever read the output may be gone; the decision is in its file
        typer.echo(f"{decision.time.astimezone():%H:%M:%S}  {made} ({decision.reason})")


def _check_held_out(path: Path) -> None:
    """End the command if the held-out tasks cannot be read."""
    from agentflow.evals.benchmarks import catalogue
    from agentflow.evals.benchmarks.errors import BenchmarkError

    try:
        if catalogue.benchmark(os.fspath(path)).tasks():
            return
    except BenchmarkError as error:
        fail(f"--held-out {path}: {error}", MISUSED)
    fail(f"--held-out {path} has no tasks", MISUSED)
