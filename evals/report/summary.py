"""Data of the page that compares evaluations: tables, differences, audits, and the paper's numbers.

`paper.json` was copied from the tables of the authors' repository. Accuracy is in percent, by benchmark; `averages` has
the printed means of the groups of columns. `tools` has the percent of the calls before and after training (figure 3),
`fewer_errors` by how many points training lowered the share of failed calls (figure 4). `since` are agents of 7 or 8
billion parameters that were published later, as reported by their authors.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib.resources import files
from statistics import fmean
from typing import Any

from agentflow.evals.audit import audit, own_models
from agentflow.evals.runs import Run
from agentflow.evals.statistics import Comparison, compare, holm
from agentflow.graph.run.garbage import rarely_collected


@rarely_collected()
def summary(runs: Sequence[Run]) -> dict[str, Any]:
    """Return the data of tables and charts. It contains no text of a benchmark."""
    return {
        "runs": [
            {"name": run.name, "planner": run.settings.planner, "settings": run.settings.model_dump(mode="json")}
            for run in runs
        ],
        "cells": [asdict(cell) for run in runs for cell in run.cells],
        "families": [asdict(family) for run in runs for family in run.families],
        "audits": [_audits(run) for run in runs],
        "differences": list(_differences(runs)),
        "paper": json.loads((files(__package__) / "paper.json").read_bytes()),
    }


def _audits(run: Run) -> list[dict[str, Any]]:
    """Return the audit of each benchmark of a run."""
    found = []
    for cell in run.cells:
        records = [record for record in run.records if record.benchmark == cell.benchmark]
        audited = audit(cell.benchmark, records, cell.questions, cell.epochs, own_models(run.settings))
        found.append(audited.model_dump(mode="json"))
    return found


def _differences(runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    """Yield a comparison of every run with the first run of the same benchmark, on the tasks that both have.

    The p-values are corrected for the number of comparisons (Holm).
    """
    first: dict[str, Run] = {}
    pairs, compared = list[tuple[str, Run, Run]](), list[Comparison]()
    for run in runs:
        for cell in run.cells:
            base = first.setdefault(cell.benchmark, run)
            before, after = base.tries(cell.benchmark), run.tries(cell.benchmark)
            if base is not run and before.keys() & after.keys():
                pairs.append((cell.benchmark, base, run))
                compared.append(compare(before, after))
    for (benchmark, base, run), found in zip(pairs, holm(compared), strict=True):
        yield {
            "benchmark": benchmark,
            "first": base.name,
            "second": run.name,
            "verdict": found.verdict(base.name, run.name),
            "shown": found.shown,
            "accuracies": [found.first, found.second],
            "questions": found.questions,
            "p_value": found.p_value,
            "corrected": found.corrected,
            "among": found.among,
            **_flips(base.tries(benchmark), run.tries(benchmark)),
        }


def _flips(before: dict[str, list[bool]], after: dict[str, list[bool]]) -> dict[str, int]:
    """Return the numbers of tasks that the second run has right more often, and less often."""
    changes = [fmean(after[task]) - fmean(tries) for task, tries in before.items() if task in after]
    return {"gained": sum(change > 0 for change in changes), "lost": sum(change < 0 for change in changes)}
