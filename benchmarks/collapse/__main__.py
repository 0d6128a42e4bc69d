"""Measure the alarm on short trainings, half of them sabotaged in one of eight ways: `python -m benchmarks.collapse`.

Trains the micro model's planner on Atlas: for each seed one run of each way to sabotage a training, and as many honest
ones, with other learning rates, algorithms and objectives. On the first three seeds the bounds of `rl/alarm.py` were
chosen, and the others measure them. A reward is lost at the first step from which on its mean over three steps stays
below half of that of the first three.

Needs the extra `train`. A run that was stopped resumes, and finished runs are not repeated.
"""

from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from agentflow.rl.alarm import MAX_EXACT_DRIFT, Cause, alarm
from agentflow.rl.training_log import Line, TrainingLog
from benchmarks.analyses.stages import Stages, run

CHOSEN_ON = 3
"""Number of seeds on whose runs the bounds of the alarm were chosen."""
STEPS = 20
COMMON = (
    *(f"steps={STEPS}", "questions=4", "rollouts=8", "test_tasks=24", "validation_rollouts=1", "validate_every=5"),
    *("alarm=warn", "replay_logs=false", f"save_every={STEPS}"),
)
"""Settings of all runs."""
LIBRARIES = "agentflow.rl.trainer.micro_rollout,agentflow.rl.trainer.shared_prefix"
NO_TEMPLATE = "{% for message in messages %}{{ message['content'] }} {% endfor %}"

SABOTAGE: dict[Cause, tuple[str, ...]] = {
    Cause.LEARNING_RATE: ("lr=2e-3",),
    Cause.TEMPLATE: (f'actor_rollout_ref.model.custom_chat_template="{NO_TEMPLATE}"', "rehearsal=false"),
    Cause.STALE: (f"actor_rollout_ref.model.external_lib=[{LIBRARIES},benchmarks.collapse.stale]",),
    Cause.MISMATCH: (f"actor_rollout_ref.model.external_lib=[{LIBRARIES},benchmarks.collapse.mismatched]",),
    Cause.ENTROPY: ("actor_rollout_ref.actor.entropy_coeff=-10",),
    Cause.LENGTH: ("app=benchmarks.collapse.apps:wordy",),
    Cause.HACKING: ("app=benchmarks.collapse.apps:hackable",),
    Cause.TOOL: ("app=benchmarks.collapse.apps:failing",),
}
"""Settings that sabotage a training, by the cause that the alarm should name."""
HONEST: dict[str, tuple[str, ...]] = {
    "preset": (),
    "slow": ("lr=1e-4",),
    "fast": ("lr=6e-4",),
    "no KL": ("kl=0",),
    "rloo": ("algorithm=rloo",),
    "grpo": ("algorithm=grpo",),
    "gspo": ("flow.objective=gspo", "flow.updates=2"),
    "discovery": ("options.level=discovery",),
}
"""Settings of honest trainings, by name."""


@dataclass(frozen=True)
class Outcome:
    """First alarm of a run, and the step at which its reward was lost."""

    name: str
    seed: int
    sabotaged: bool
    step: int | None
    """Step of the first alarm."""
    cause: str
    evidence: str
    lost: int | None
    """Step from which on the reward is lost."""


def main(
    out: Annotated[Path, typer.Option(help="Folder of the runs.")] = Path("runs/collapse"),
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of each way.")] = 5,
    only: Annotated[list[str] | None, typer.Option(help="A way, by name; again for more. Without it, all.")] = None,
) -> None:
    """Train the missing runs, and print what the alarm says of each."""
    ways = {str(cause): settings for cause, settings in SABOTAGE.items()} | HONEST
    if unknown := set(only or ()) - ways.keys():
        raise typer.BadParameter(f"{unknown.pop()}; the ways are {', '.join(ways)}", param_hint="--only")
    out.mkdir(parents=True, exist_ok=True)
    stages, found = Stages(out), list[Outcome]()
    for seed in range(seeds):
        for name in only or ways:
            settings = (*COMMON, f"seed={seed}", *ways[name])
            folder = stages.make(
                f"{name}-{seed}".replace(" ", "-"),
                lambda folder, settings=settings: run("train", f"out={folder}", *settings),
            )
            found.append(outcome(name, seed, TrainingLog(folder).lines()))
    _show(found)


def outcome(name: str, seed: int, lines: list[Line]) -> Outcome:
    """Return the first alarm of a run."""
    sabotaged = name in list(SABOTAGE)
    for number in range(1, len(lines) + 1):
        if lines[number - 1]["split"] == "train" and (raised := alarm(lines[:number], MAX_EXACT_DRIFT)):
            step = int(lines[number - 1]["step"])
            return Outcome(name, seed, sabotaged, step, raised.cause, raised.evidence, lost(lines))
    return Outcome(name, seed, sabotaged, None, "", "", lost(lines))


def lost(lines: list[Line]) -> int | None:
    """Return the first step from which on the mean reward of three steps stays below half of the first three's."""
    rewards = [line["reward"] for line in lines if line["split"] == "train"]
    means = [mean(rewards[at : at + 3]) for at in range(len(rewards) - 2)]
    held = [at for at, value in enumerate(means) if value >= means[0] / 2]
    return held[-1] + 2 if held and held[-1] + 1 < len(means) else None


def _show(outcomes: list[Outcome]) -> None:
    shown = Table("way", "seed", "alarm at", "cause", "reward lost at", "evidence")
    for one in outcomes:
        at, lost = (str(step) if step else "-" for step in (one.step, one.lost))
        shown.add_row(one.name, f"{one.seed}", at, one.cause, lost, one.evidence)
    console = Console(width=160)
    console.print(shown)
    chosen_on, unseen = [[one for one in outcomes if (one.seed >= CHOSEN_ON) == later] for later in (False, True)]
    for title, own in (("seeds on which the bounds were chosen", chosen_on), ("seeds that they have not seen", unseen)):
        sabotaged, honest = [one for one in own if one.sabotaged], [one for one in own if not one.sabotaged]
        raised = [one for one in sabotaged if one.step]
        early = [one for one in raised if one.lost is None or (one.step or 0) + 10 <= one.lost]
        named = sum(one.cause == one.name for one in raised)
        console.print(
            f"{title}: of {len(sabotaged)} sabotaged runs, {len(raised)} raised it, {named} with the right cause, "
            f"{len(early)} ten steps before the reward was lost or without its loss; of {len(honest)} honest runs, "
            f"{sum(one.step is not None for one in honest)} raised it"
        )


if __name__ == "__main__":
    typer.run(main)
