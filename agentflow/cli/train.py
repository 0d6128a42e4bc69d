"""`agentflow train` and `agentflow export`: from a preset to a policy that a server can load."""

from pathlib import Path
from typing import Annotated

import typer

from agentflow.cli.group import FAILED, MISUSED, fail
from agentflow.console.progress import TrainView
from agentflow.console.terminal import console

app = typer.Typer()


@app.command(epilog="Example: agentflow train --preset atlas-cpu steps=10 out=runs/short")
def train(
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Settings to change, as in steps=10.")
    ] = None,
    preset: Annotated[str, typer.Option(metavar="NAME", help="The preset; a wrong name lists them.")] = "atlas-cpu",
    show: Annotated[bool, typer.Option("--show", help="Print the whole configuration and exit.")] = False,
) -> None:
    """Train the nodes of a LangGraph graph in the flow. A run that was stopped goes on from its last checkpoint."""
    from agentflow import doctor

    _, works, says = doctor.training()
    if works != "ok":
        fail(f"training {says}", MISUSED)
    from agentflow.rl import train as training
    from agentflow.rl.report import write_report
    from agentflow.rl.settings import SettingsError, compose_settings

    try:
        config = compose_settings(preset, overrides or [])
        if show:
            typer.echo(training.as_yaml(config))
            return
        settings = training.prepare(config)
        with TrainView(console(), settings.steps) as view:
            training.train(config, view.show)
    except SettingsError as error:
        fail(str(error), MISUSED)
    except training.TrainingFailed as error:
        fail(str(error), FAILED)
    report = write_report(Path(config.out), settings.model_dump())
    typer.echo(f"report: {report}\nnext: agentflow export {config.out} planner")


@app.command(
    epilog="Example: agentflow export runs/atlas-cpu planner && agentflow solve ... --planner embedded:planner"
)
def export(
    checkpoint: Annotated[Path, typer.Argument(help="A training run's folder, or one of its checkpoints.")],
    directory: Annotated[Path, typer.Argument(help="The new folder.")],
) -> None:
    """Write a trained policy as a Hugging Face folder, for vLLM and for --planner embedded:DIRECTORY."""
    from agentflow.rl.export import ExportError
    from agentflow.rl.export import export as write

    try:
        step = write(checkpoint, directory)
    except ExportError as error:
        fail(str(error), MISUSED)
    typer.echo(f"the policy of step {step} is in {directory}")
