"""Figures above a list of traces: curves of a training, comparison of evaluations; and the groups of a step."""

from collections.abc import Sequence
from typing import Any

from agentflow.evals.audit import Flag
from agentflow.evals.report.summary import summary
from agentflow.evals.results_store import TRACES
from agentflow.evals.run_folder import SETTINGS, RunFolderError
from agentflow.evals.runs import read_runs
from agentflow.view.groups import groups
from agentflow.view.pairs import matrix
from agentflow.view.query import Named, choices
from agentflow.view.sources import Evaluation, Source, Training

SHOWN = (
    *("preset", "app", "steps", "questions", "rollouts", "seed", "lr", "kl", "clip_low"),
    *("clip_high", "flow", "rollout_seconds"),
)
"""Settings of a training that the page shows; others may name folders of the machine."""


def about(source: Source) -> dict[str, Any]:
    """Return the summary, the choices of the filters and, of a training, the data of its curves."""
    found = {**source.summary(), "choices": choices(source.rows())}
    if isinstance(source, Training):
        found |= {
            "settings": {name: source.settings[name] for name in SHOWN if name in source.settings},
            "lines": source.lines,
            "measured": source.measured(),
            "train_steps": source.steps("train"),
            "test_steps": source.steps("test"),
            "matrix": matrix(source),
        }
    return found


def report(sources: Sequence[Source]) -> dict[str, Any]:
    """Return the figures of evaluations, each run with the id of its source. Raises RunFolderError."""
    for source in sources:
        if not isinstance(source, Evaluation) or not source.rows():
            raise RunFolderError(f"{source.name} is no evaluation with traces")
        if any((source.path / name).is_symlink() for name in (SETTINGS, TRACES)):
            raise RunFolderError(f"{source.name} has links, which are not followed")
    found = summary(read_runs([source.path for source in sources]))
    for source, run, audits in zip(sources, found["runs"], found["audits"], strict=True):
        run["id"] = source.id
        name_flagged(audits, source.rows())
    return found


def name_flagged(audits: Sequence[dict[str, Any]], rows: Sequence[Named]) -> dict[str, list[str]]:
    """Add the name of its trace to each flagged sample of some audits, and return the flags by this name."""
    names = {(row.benchmark, row.task, row.sample): name for name, row in rows}
    found = {}
    for audit in audits:
        for item in audit["items"]:
            item["trace"] = names.get((audit["benchmark"], item["id"], item["sample"]), "")
            item["flags"] = found[item["trace"]] = [str(Flag(**flag)) for flag in item["flags"]]
    return found


def step_groups(source: Training, step: int) -> dict[str, Any]:
    """Return the groups of a step, each with its number among those whose tokens were recorded."""
    found = groups(source.of_step(step, "train"), source.settings)
    kept = source.tokens(step, rows=False)
    looked_at = {task: number for number, task in enumerate(kept.tasks)} if kept else {}
    for group in found["groups"]:
        group["tokens"] = looked_at.get(group["task"])
    return {**found, "step": step, "steps": source.steps("train")}
