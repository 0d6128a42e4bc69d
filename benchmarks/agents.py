"""Draw how reward rises in trainings of the example agents: `python -m benchmarks.agents RUN...`.

Prints a table of the runs as Markdown, with the held-out reward before and after and the 95 % interval of their
difference, paired by question, and draws the reward of each step's rollouts.
"""

from pathlib import Path
from statistics import mean
from typing import Annotated

import typer

from agentflow.evals.report.drawing import lines
from agentflow.evals.statistics import paired_interval
from agentflow.rl.training_log import TrainingLog
from benchmarks.analyses.report import table
from benchmarks.policies import points

HEAD = ("agent", "before", "after", "difference", "95 %", "steps", "rollouts of a step", "minutes", "held-out rollouts")


def row(run: Path) -> list[str]:
    """Return the line of a run in the table."""
    log, (first, *_, last) = TrainingLog(run), points(run)
    trained = [line for line in log.lines() if line["split"] == "train"]
    each = [last.questions[task] - first.questions[task] for task in first.questions]
    low, high = paired_interval(each)
    rollouts = sum(1 for _ in log.records(trained[-1]["step"], "train"))
    minutes = sum(line["seconds/step"] for line in trained) / 60
    return [
        f"`{run.name}`",
        f"{first.accuracy:.2f}",
        f"{last.accuracy:.2f}",
        f"{mean(each):+.2f}",
        f"{low:+.2f} to {high:+.2f}",
        str(last.step),
        str(rollouts),
        f"{minutes:.0f}",
        str(sum(1 for _ in log.records(last.step, "test"))),
    ]


def main(
    runs: Annotated[list[Path], typer.Argument(help="Folders of trainings, named after their agents.")],
    figure: Annotated[Path, typer.Option(help="The figure.")] = Path("docs/figures/agents.svg"),
) -> None:
    """Print the table of the runs, and draw their rewards by step."""
    series = {
        run.name: [(line["step"], line["reward"]) for line in TrainingLog(run).lines() if line["split"] == "train"]
        for run in runs
    }
    lines(figure, series, marker="", xlabel="step", ylabel="reward of the step's rollouts", ylim=(0, 1))
    typer.echo(table(HEAD, [row(run) for run in runs]))


if __name__ == "__main__":
    typer.run(main)
