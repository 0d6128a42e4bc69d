"""`agentflow serve --learn`: serve an agent whose planner learns from its answers' scores."""

import json
import os
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from agentflow.cli.group import FAILED, MISUSED, fail
from agentflow.cli.listening import listen, url_of

if TYPE_CHECKING:
    from agentflow.graph.context import Context
    from agentflow.rl.live.journal import Decision


class Learning(NamedTuple):
    """Options of learning."""

    folder: Path
    held_out: Path
    share: float
    batch: int
    trial: int
    training: list[str]


def serve_learning(
    learning: Learning, spec: str, context: "Context", host: str, port: int, key: str, needs_key: str
) -> None:
    """Serve the agent, with the planner `spec` as version 0, until interrupted."""
    from agentflow.checks import doctor

    _, works, says = doctor.training()
    if works != "ok":
        fail(f"--learn {says}", MISUSED)
    import uvicorn

    from agentflow.cli.options import agent_of
    from agentflow.graph.models.spec import ModelError
    from agentflow.rl.live.journal import JournalError, Traffic
    from agentflow.rl.live.learner import Learner, LearningSettings, used_ids
    from agentflow.rl.live.server import LiveAgent
    from agentflow.rl.live.versions import Versions
    from agentflow.rl.micro.chat_model import SHIPPED, TRAINED

    _check_held_out(learning.held_out)
    _check_settings(learning.training)
    model = spec.partition(":")[2]
    folder = learning.folder.absolute()
    settings = LearningSettings(
        folder=folder,
        held_out=learning.held_out.absolute(),
        context=context,
        start=SHIPPED.get(model, Path(model).expanduser().absolute()) if model else TRAINED,
        batch=learning.batch,
        trial=learning.trial,
        training=learning.training,
    )
    listening = listen(host, port, needs_key)
    with ExitStack() as stack, listening:
        try:
            versions = Versions(folder, learning.share, _print)
            stack.callback(versions.close)
            traffic = Traffic(folder, used_ids(folder))
            stack.callback(traffic.close)
            learner = Learner(settings, traffic, versions)
            for number in {versions.current, versions.trial.version if versions.trial else versions.current}:
                learner.load(number)
        except JournalError as error:
            fail(f"--learn {folder}: {error}", MISUSED)
        except ModelError as error:
            fail(f"--learn {folder}: {error}", MISUSED if error.configuration else FAILED)
        live = LiveAgent(agent_of(context), learner, versions, traffic, key)
        url = f"{url_of(host, listening)}/v1"
        typer.echo(f"serving the agent with version {versions.current} of its planner at {url} (Ctrl-C ends it)")
        typer.echo(f"scores go to {url}/feedback, decisions to {folder}/decisions.jsonl")
        asked = json.dumps({"messages": [{"role": "user", "content": "How many feet are 3 yards?"}]})
        header = ' -H "Authorization: Bearer $AGENTFLOW_SERVE_KEY"' if key else ""
        typer.echo(f"try: curl {url}/chat/completions -d '{asked}'{header}")
        config = uvicorn.Config(live.app(), log_level="warning", timeout_graceful_shutdown=3)
        uvicorn.Server(config).run(sockets=[listening])


def _print(decision: "Decision") -> None:
    outcome = decision.outcome.replace("_", " ")
    with suppress(OSError):  # whoever read the output may be gone; the decision is in its file
        typer.echo(f"{decision.time.astimezone():%H:%M:%S}  version {decision.version}: {outcome} ({decision.reason})")


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


def _check_settings(training: list[str]) -> None:
    """End the command if a setting of the training is wrong."""
    from agentflow.rl.settings import SettingsError, TrainingSettings, compose_settings

    try:
        TrainingSettings.of(compose_settings("atlas-cpu", training))
    except SettingsError as error:
        fail(f"--set: {error}", MISUSED)
