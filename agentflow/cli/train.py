"""`agentflow train`, `agentflow export` and `agentflow replay`: train a policy, export it, and replay a step."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from agentflow.cli.group import FAILED, MISUSED, fail, say
from agentflow.cli.option_groups import OptionGroup, with_groups
from agentflow.cli.options import check_training
from agentflow.console.progress import CountProgress, TrainView
from agentflow.console.rollouts import print_held_out
from agentflow.console.terminal import console

if TYPE_CHECKING:
    from omegaconf import DictConfig

app = typer.Typer()


@dataclass
class AppOptions(OptionGroup):
    """How an agent's graph is run and rewarded."""

    PANEL = "Agent"

    tasks: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Tasks of a graph: JSON lines, JSON, CSV or parquet.")
    ] = None
    reward: Annotated[
        str,
        typer.Option(metavar="MODULE:FUNCTION", help="Reward of a task and the final state; by default, its answer."),
    ] = ""
    nodes: Annotated[
        str, typer.Option(metavar="PATH,...", help="Nodes that learn, as in planner,research/agent; by default, all.")
    ] = ""
    test: Annotated[Path | None, typer.Option(metavar="FILE", help="Test tasks; by default, one task in five.")] = None
    context: Annotated[str, typer.Option(metavar="JSON|FILE", help="The graph's context.")] = ""
    config: Annotated[
        str, typer.Option(metavar="JSON|FILE", help="LangChain's config of each run, or its configurable.")
    ] = ""

    def settings(self, words: Sequence[str]) -> list[str]:
        """Return the settings of a call: key=value words, and the app that the first other word names."""
        from agentflow.rl.apps.loading import full_name
        from agentflow.rl.settings import setting

        apps = [word for word in words if "=" not in word and ":" in full_name(word)][:1]
        return [
            *(setting("app", full_name(name)) for name in apps),
            *(
                f"options.{word}" if word.startswith(("answer=", "rollout=")) else word
                for word in words
                if word not in apps
            ),
            *(setting(f"options.{name}", str(value)) for name, value in asdict(self).items() if value),
        ]


@app.command(
    epilog="Example: agentflow train --preset atlas-cpu steps=10 out=runs/short\n\n"
    "Example: agentflow train my_pkg.my_agent:agent --tasks tasks.jsonl --reward my_pkg.my_agent:score"
)
@with_groups
def train(
    options: AppOptions,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MODULE:AGENT] [KEY=VALUE]...", help="What is trained, and settings to change."),
    ] = None,
    preset: Annotated[str, typer.Option(metavar="NAME", help="The preset; a wrong name lists them.")] = "atlas-cpu",
    show: Annotated[
        bool, typer.Option("--show", help="Check the settings, print them and exit; --show all: verl's too.")
    ] = False,
    estimate: Annotated[
        bool,
        typer.Option("--estimate", help="Print the memory and tokens that it takes on GPUs, as counted, and exit."),
    ] = False,
) -> None:
    """Train a LangGraph agent: run it on tasks, reward the outcome, update the model; the same call resumes it."""
    from agentflow.checks import doctor
    from agentflow.rl.presets.files import preset_text, unknown_preset

    if problem := unknown_preset(preset):
        fail(problem, MISUSED)
    _, works, says = doctor.training()
    if works != "ok" and show and not words:
        typer.echo(preset_text(preset))
        say(f"note: these are the preset's files, unchecked and without verl's settings; training {says}")
        return
    if works != "ok":
        fail(f"training {says}", MISUSED)
    from omegaconf import OmegaConf

    from agentflow.rl import train as training
    from agentflow.rl.launch.checks import check
    from agentflow.rl.launch.estimate import beside_machine
    from agentflow.rl.launch.estimate import estimate as estimated
    from agentflow.rl.run.training_log import TrainingLog
    from agentflow.rl.settings import compose_settings

    whole = show and "all" in (words or [])  # --show all
    given = [word for word in words or [] if not (whole and word == "all")]
    chosen = options.settings(given)
    if show or estimate:
        composed = compose_settings(preset, chosen)
        checked = check(composed)
        if "tasks" in checked.settings.options:  # a file; the questions of a benchmark may have to be downloaded
            checked.app.tasks("train", 1)
            checked.app.tasks("test", 1)
        names = type(checked.settings).model_fields
        if estimate:
            found = estimated(composed)
            typer.echo("\n".join([*found.lines, *(f"({line})" for line in beside_machine(composed, found))]))
            return
        own = [*names, *(word.partition("=")[0].lstrip("+~") for word in chosen)]
        typer.echo(OmegaConf.to_yaml(composed if whole else _only(composed, own), resolve=not whole).rstrip())
        return
    terminal = console()
    with TrainView(terminal) as view:
        out = training.train(
            preset,
            *chosen,
            on_start=view.begin,
            on_line=view.show,
            on_rollouts=view.rollouts,
            on_remark=say,
        )
    if held_out := TrainingLog(out).held_out():
        print_held_out(terminal, held_out)
    elif lost := TrainingLog(out).lost():
        typer.echo(lost)
    typer.echo(f"report: {write_report(out)}")
    typer.echo("\n".join(_next(out)))


def _only(composed: "DictConfig", keys: Iterable[str]) -> "DictConfig":
    """Return the settings of these keys, which may be dotted."""
    from omegaconf import OmegaConf

    shown = OmegaConf.create()
    for key in keys:
        if (value := OmegaConf.select(composed, key, default=composed)) is not composed:
            OmegaConf.update(shown, key, value, force_add=True)
    return shown


def write_report(out: Path) -> Path:
    """Write the viewer's page of a run, with its data inside, to report.html in its folder; returns the path."""
    from agentflow.view.export import training

    path = out / "report.html"
    path.write_text(training(out).html, encoding="utf-8")
    return path


def _next(out: Path) -> list[str]:
    """Return the commands that export what a run has trained, also of its best step if that is not the last."""
    from agentflow.rl.run.checkpoints import best_step, latest_step
    from agentflow.rl.run.training_log import TrainingLog

    log, command = TrainingLog(out), f"agentflow export {out} planner"
    found = [f"next: {command}"]
    if log.lost():
        return found
    accuracies = log.accuracies()
    best = best_step(out, accuracies)
    if best is not None and accuracies.get(0, 0.0) > accuracies[best]:
        found.append(
            f"note: no step reaches the start's held-out accuracy, {accuracies[0]:.3f}; lower lr, or keep the start"
        )
    elif best is not None and best != latest_step(out):
        found.append(f"or: {command} --best (step {best}, with the highest held-out accuracy, {accuracies[best]:.3f})")
    return found


@app.command(
    epilog="Example: agentflow export runs/atlas-cpu planner && agentflow solve ... --planner embedded:planner"
)
def export(
    checkpoint: Annotated[Path, typer.Argument(help="A training run's folder, or one of its checkpoints.")],
    directory: Annotated[Path, typer.Argument(help="The new folder.")],
    adapter: Annotated[
        bool, typer.Option("--adapter", help="Write the adapter of a LoRA run too, to DIRECTORY/adapter.")
    ] = False,
    best: Annotated[
        bool, typer.Option("--best", help="The step of the run with the highest held-out accuracy, not its last one.")
    ] = False,
    hub: Annotated[
        str, typer.Option("--push", metavar="OWNER/NAME", help="Upload it to the Hugging Face Hub too, as private.")
    ] = "",
) -> None:
    """Write a trained policy as a Hugging Face folder with a model card, for vLLM and --planner embedded:DIRECTORY.

    An adapter is merged. The export is checked: the model must reproduce the trainer's log-probabilities of recorded
    tokens.
    """
    from agentflow.rl.run.export import export as write

    step, checked = write(checkpoint, directory, adapter=adapter, best=best)
    typer.echo(f"the policy of step {step} is in {directory}")
    typer.echo(f"checked: {checked}" if checked else "not checked: the run recorded no tokens of these weights")
    if hub:
        from agentflow.rl.run.model_card import push

        typer.echo(f"uploaded: {push(directory, hub)}")


MOST_NAMED = 10
"""Largest number of differing rollouts that are listed."""


@app.command(epilog="Example: agentflow replay runs/atlas-cpu --step 12")
def replay(
    run: Annotated[Path, typer.Argument(help="A training run's folder.")],
    step: Annotated[int | None, typer.Option(min=0, help="The step; the last one by default.")] = None,
    split: Annotated[Literal["train", "test"], typer.Option(help="Its rollouts, or the validation's after it.")] = (
        "train"
    ),
) -> None:
    """Replay a training step from its recorded responses and compare; uses no model, tool or network.

    Exits with 1 if the current code produces a different result from the same responses.
    """
    check_training("replay")
    from agentflow.rl.run.replay import Replay

    again = Replay(run, step, split)
    with CountProgress(console(), "", len(again.rollouts)) as view:
        found = asyncio.run(again.run(view.add))
    for difference in found.differences[:MOST_NAMED]:
        typer.echo(difference)
    if (more := len(found.differences) - MOST_NAMED) > 0:
        typer.echo(f"... and {more} more")
    batch = f", batch {found.batch}" if found.batch else ""
    typer.echo(f"step {again.step}: {found.rollouts} rollouts run again{batch}")
    if not found.same:
        recorded = f"; the batch was {found.recorded or 'not recorded'}" if found.batch != found.recorded else ""
        fail(f"{len(found.differences)} rollouts went another way than before{recorded}", FAILED)
    typer.echo("the same as recorded")
