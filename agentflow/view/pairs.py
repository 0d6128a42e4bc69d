"""Pairs of the same question in two sources: before and after training, or in two evaluations."""

from collections.abc import Mapping, Sequence
from typing import Any

from agentflow.rl.rollout.rollout import rewarded
from agentflow.tools.coded_error import Cause
from agentflow.view.query import Named, cells
from agentflow.view.sources import Source, Training

WRONG: tuple[Cause, ...] = ("policy",)
"""Causes of failures that are wrong, where others are no answer."""

MOST = 2000
"""Most pairs that are sent to the page; the counts are of all."""


def at(source: Source, step: int | None) -> Sequence[Named]:
    """Return the rows of one side: for a training, of the validation after `step`; of none without a step."""
    if not isinstance(source, Training):
        return source.rows()
    return source.of_step(step, "test") if step is not None else []


def pairs(before: Sequence[Named], after: Sequence[Named], benchmark: str = "") -> dict[str, Any]:
    """The questions that both sides have, with every try of each, those whose outcome changed first.

    `benchmark` limits them to one; "" takes all.
    """
    earlier, later = (
        _by_question([named for named in side if benchmark in ("", named[1].benchmark)]) for side in (before, after)
    )
    both = [(question, tries, later[question]) for question, tries in earlier.items() if question in later]
    found = [
        {
            "question": question,
            "gold": one[0][1].gold,
            "family": one[0][1].family,
            "change": _change(one, other),
            "before": [cells(*named) for named in one],
            "after": [cells(*named) for named in other],
        }
        for question, one, other in both
    ]
    order = ("gained", "lost", "wrong", "right")
    counts = {change: sum(pair["change"] == change for pair in found) for change in order}
    found.sort(key=lambda pair: order.index(str(pair["change"])))
    return {"pairs": found[:MOST], "number": len(found), "counts": counts}


def matrix(training: Training) -> dict[str, Any]:
    """Return the share of correct tries of each held-out question, of the decided ones, by the step before."""
    steps = training.steps("test")
    shares: dict[str, dict[int, float]] = {}
    about: dict[str, dict[str, str]] = {}
    for step in steps:
        for question, tries in _by_question(training.of_step(step, "test")).items():
            decided = [named for named in tries if rewarded(named[1].status, WRONG)]
            shares.setdefault(question, {}).update({step: _share(decided)} if decided else {})
            about.setdefault(question, {"question": question, "family": tries[0][1].family, "task": tries[0][1].task})
    rows = [{**about[question], "shares": [own.get(step) for step in steps]} for question, own in shares.items()]
    rows.sort(key=lambda row: (row["family"], row["task"]))
    return {"steps": steps, "rows": rows}


def _by_question(rows: Sequence[Named]) -> Mapping[str, list[Named]]:
    found: dict[str, list[Named]] = {}
    for named in rows:
        found.setdefault(named[1].question, []).append(named)
    return found


def _share(tries: Sequence[Named]) -> float:
    return sum(row.outcome == "correct" for _, row in tries) / len(tries)


def _change(before: Sequence[Named], after: Sequence[Named]) -> str:
    earlier, later = _share(before), _share(after)
    if earlier == later:
        return "right" if later > 0.5 else "wrong"
    return "gained" if later > earlier else "lost"
