"""Run all missing stages of the analyses, then write docs/analyses.md and its figures.

Each stage writes a folder and finished stages are not repeated, so the whole, about three hours on two cores, can be
interrupted and resumed at any time. Needs the extras `train` and `benchmarks`.
"""

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.analyses.report import write
from benchmarks.analyses.seeds import monolithic_seed, small_seed, supervised
from benchmarks.analyses.stages import BUDGETS, ComparedPlanner, Stages

app = typer.Typer(add_completion=False)


@app.command()
def main(
    out: Annotated[Path, typer.Option(help="Folder of all runs; what it has already is kept.")] = Path("runs/analyses"),
    docs: Annotated[Path, typer.Option(help="Folder of analyses.md and figures.")] = Path("docs"),
) -> None:
    """Run all missing trainings and measurements, then write the tables and figures."""
    out.mkdir(parents=True, exist_ok=True)
    stages = Stages(out)
    grpo = stages.trained("flow-grpo")
    calls = stages.trained("per-call", "algorithm=grpo")
    offline = stages.make("offline", supervised) / "model"
    small = stages.make("small-seed", small_seed) / "model"
    small_grpo = stages.trained("small", f"start={small}")
    policy = stages.make("monolithic-seed", monolithic_seed) / "model"
    stages.trained("monolithic", "app=benchmarks.analyses.monolithic:monolithic", f"start={policy}")
    planners = [
        ComparedPlanner("seed", "frozen", "embedded:seed", ""),
        ComparedPlanner("offline", "supervised on faultless plans", f"embedded:{offline}", "offline"),
        ComparedPlanner("flow-grpo", "Flow-GRPO", f"embedded:{grpo}", "flow-grpo"),
        ComparedPlanner("per-call", "GRPO, statistics and mean over calls", f"embedded:{calls}", "per-call"),
        ComparedPlanner("small-seed", "half the size, frozen", f"embedded:{small}", ""),
        ComparedPlanner("small", "half the size, Flow-GRPO", f"embedded:{small_grpo}", "small"),
    ]
    measured = {planner.name: stages.measured(planner.name, planner.spec) for planner in planners}
    budgets = {
        name: [stages.measured(name, spec, turns=turns) for turns in BUDGETS]
        for name, spec in (("seed", "embedded:seed"), ("flow-grpo", f"embedded:{grpo}"))
    }
    path = write(docs, stages, planners, measured, budgets)
    typer.echo(f"the analyses are in {path}")


if __name__ == "__main__":
    app()
