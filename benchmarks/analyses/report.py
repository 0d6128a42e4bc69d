"""Write docs/analyses.md and its figures from the folders of the stages."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from agentflow.evals.report.drawing import lines
from agentflow.rl.training_log import Line, TrainingLog
from benchmarks.analyses.stages import BUDGETS, EPOCHS, QUESTIONS, STEPS, TURNS, ComparedPlanner, Measured, Stages

BEFORE, AFTER = "seed", "flow-grpo"

READING = Path(__file__).with_name("reading.md")
"""Interpretation of the published run, written by hand."""

PAGE = """\
# Analyses

This page shows, for readers of the paper, what training in the flow achieves at a fixed budget, compared with other
ways to train. Repeat the analyses, figures included, with:

```bash
pip install -e '.[train,report]'
python -m benchmarks.analyses
```

The conditions are:

- Every planner answers the same {questions} questions of unseen worlds, {epochs} tries each at temperature 1, with at
  most {turns} turns. All other modules are frozen.
- A training run takes {steps} steps of 24 questions with 8 rollouts each. The supervised planner takes 2,000 steps of
  1,500 tokens.
- Minutes are on two cores that also had other work.
- There is one run of each, with seed 0. The interval is 95 %, from the spread between questions.

{reading}

## Planners

{planners}

## The agent and a monolithic policy

The monolithic policy is one model that writes calls, arguments and answer itself. Its seed learned the same habits from
as many tokens as the agent's, and its training had the same budget. The table gives accuracy on the same questions, at
temperature 1, as the trainer measured it.

{policies}

![Reward by step](figures/rewards.svg)

## Turn budget

{budgets}

![Accuracy by turn budget](figures/budgets.svg)

## Tools

The share of each tool in the turns with a readable plan.

{tools}

## Errors

The share of each error class in all turns.

{errors}
"""


def write(
    docs: Path,
    stages: Stages,
    planners: Sequence[ComparedPlanner],
    measured: Mapping[str, Measured],
    budgets: Mapping[str, Sequence[Measured]],
) -> Path:
    """Write the page and its figures; return the page's path."""
    figures = docs / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    _rewards(stages, figures / "rewards.svg")
    _budgets(budgets, figures / "budgets.svg")
    before, after = measured[BEFORE].summary, measured[AFTER].summary
    page = PAGE.format(
        questions=QUESTIONS,
        epochs=EPOCHS,
        turns=TURNS,
        steps=STEPS,
        reading=READING.read_text(encoding="utf-8").strip(),
        planners=_planners(stages, planners, measured),
        policies=_policies(stages),
        budgets=table(
            ["turns", *map(str, BUDGETS)],
            [[name, *(f"{one.summary.total.accuracy:.3f}" for one in row)] for name, row in budgets.items()],
        ),
        tools=_shares({"before": before.tools, "after": after.tools}, (before.readable, after.readable)),
        errors=_shares({"before": before.errors, "after": after.errors}, (before.total.turns, after.total.turns)),
    )
    path = docs / "analyses.md"
    path.write_text(page, encoding="utf-8")
    return path


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a Markdown table."""
    lines = [list(head), ["---"] * len(head), *map(list, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _planners(stages: Stages, planners: Sequence[ComparedPlanner], measured: Mapping[str, Measured]) -> str:
    rows = []
    for planner in planners:
        found = measured[planner.name]
        low, high = found.interval
        rows.append(
            [
                planner.label,
                f"{stages.minutes(planner.made):.0f}" if planner.made else "",
                f"{found.summary.total.accuracy:.3f}",
                f"{low:.3f} to {high:.3f}",
                f"{found.summary.total.mean_turns:.2f}",
                f"{found.summary.error_rate:.1%}",
            ]
        )
    return table(["planner", "minutes of training", "accuracy", "interval", "turns", "tool-call errors"], rows)


def _policies(stages: Stages) -> str:
    rows = []
    for name, label in (("flow-grpo", "agent"), ("monolithic", "monolithic")):
        first, *_, last = _lines(stages, name, "test")
        errors = [f"{line['tool_error_rate']:.1%}" for line in (first, last)]
        rows.append([label, f"{first['accuracy']:.3f}", f"{last['accuracy']:.3f}", *errors])
    return table(["policy", "before", "after", "errors before", "errors after"], rows)


def _shares(counts: Mapping[str, Mapping[str, int]], wholes: Sequence[int]) -> str:
    names = sorted({name for count in counts.values() for name in count})
    columns = [
        [f"{count.get(name, 0) / max(whole, 1):.1%}" for name in names]
        for count, whole in zip(counts.values(), wholes, strict=True)
    ]
    rows = list(zip(names, *columns, strict=True))
    return table(["", *counts], rows)


def _lines(stages: Stages, name: str, split: str) -> list[Line]:
    return [line for line in TrainingLog(stages.out / name).lines() if line["split"] == split]


def _rewards(stages: Stages, path: Path) -> None:
    series = {
        name: [(line["step"], line["reward"]) for line in _lines(stages, name, "train")]
        for name in ("flow-grpo", "per-call", "small", "monolithic")
    }
    lines(path, series, marker="", xlabel="step", ylabel="reward of the step's rollouts", ylim=(0, 1))


def _budgets(budgets: Mapping[str, Sequence[Measured]], path: Path) -> None:
    series = {
        name: [(turns, one.summary.total.accuracy) for turns, one in zip(BUDGETS, row, strict=True)]
        for name, row in budgets.items()
    }
    lines(path, series, xlabel="most turns", ylabel="accuracy", ylim=(0, 1))
