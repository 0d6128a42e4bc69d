"""Rescoring of the answers of an evaluation without running the agent: after a scorer was corrected, or with judges.

Every answer is scored by the current rule and, if that is undecided, by each judge. A decision that differs from the
earlier one is recorded as a ruling.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import combinations

from agentflow.evals.benchmarks.benchmark import AnswerJudge, Benchmark, Judging
from agentflow.evals.calibration import kappa
from agentflow.evals.record import JUDGE_FAILED, Record
from agentflow.evals.rulings import JUDGE, Ruling, answer_hash, latest
from agentflow.evals.scorers.score import Decision, Score
from agentflow.graph.models.spec import ModelError
from agentflow.version import __version__

CONCURRENCY = 32


class Rescorer:
    """Scores records again and collects the new rulings."""

    def __init__(
        self,
        benchmarks: Mapping[str, Benchmark],
        judges: Mapping[str, AnswerJudge],
        first_judge: str,
        at: datetime,
    ) -> None:
        """
        Args:
            benchmarks: Benchmarks of the records, by name.
            judges: Judges by the name in their rulings.
            first_judge: Name of the evaluation's own judge.
            at: Time of the new rulings.
        """
        self._benchmarks, self._judges = benchmarks, judges
        self._first_judge, self._at = first_judge, at
        self.failures: list[str] = []
        """Error messages of failed judge calls."""

    async def run(self, records: Sequence[Record], on_end: Callable[[], None]) -> list[Ruling]:
        """Return the new rulings. `on_end` is called after each record.

        Raises ModelError if a judge's settings are wrong.
        """
        waiting, found = enumerate(records), dict[int, list[Ruling]]()

        async def worker() -> None:
            for number, record in waiting:
                found[number] = await self._rulings(record)
                on_end()

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(CONCURRENCY, len(records))):
                    group.create_task(worker())
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return [ruling for number in sorted(found) for ruling in found[number]]

    async def _rulings(self, record: Record) -> list[Ruling]:
        if not record.scorable:
            return []
        benchmark = self._benchmarks[record.benchmark]
        score = benchmark.score(record.task, record.answer)
        rulings = [self._ruling(record, score, f"agentflow {__version__}")]
        for name, judge in self._judges.items():
            try:
                judged = await benchmark.decide(record.task, record.answer, judge)
            except ModelError as error:
                if error.configuration:
                    raise
                self.failures.append(f"{name}: {error}")
                continue
            if judged.decided_by == JUDGE:
                rulings.append(self._ruling(record, judged, name))
            elif benchmark.judging == Judging.SECOND_OPINION:  # a metric in addition to the rule's decision
                rulings[0] = self._ruling(record, judged, rulings[0].by)
        earlier = record.history(self._first_judge, self._at)
        return [ruling for ruling in rulings if _is_new(ruling, earlier)]

    def _ruling(self, record: Record, score: Score, by: str) -> Ruling:
        return Ruling(
            benchmark=record.benchmark,
            id=record.task.id,
            sample=record.sample,
            answer=answer_hash(record.answer),
            decision=score.decision,
            decided_by=score.decided_by,
            by=by,
            at=self._at,
            metrics=dict(score.metrics),
        )


def _is_new(ruling: Ruling, earlier: Sequence[Ruling]) -> bool:
    if ruling.decided_by == JUDGE:
        return not any(one.by == ruling.by and one.is_same(ruling) for one in earlier)
    before = latest(earlier, "")
    if before is None or before.decided_by.startswith(JUDGE_FAILED):
        return ruling.decision != Decision.UNDECIDED
    return not before.is_same(ruling)


def agreements(records: Sequence[Record]) -> dict[tuple[str, str], tuple[int, float]]:
    """Return, for each pair of judges, the number of samples on which both ruled, and Cohen's kappa."""
    decisions: dict[str, dict[object, Decision]] = {}
    for record in records:
        for ruling in record.rulings:
            if ruling.decided_by == JUDGE:
                decisions.setdefault(ruling.by, {})[record.key] = ruling.decision
    found = {}
    for (name, one), (other_name, other) in combinations(sorted(decisions.items()), 2):
        if both := sorted(one.keys() & other.keys(), key=str):
            found[name, other_name] = len(both), kappa([one[key] for key in both], [other[key] for key in both])
    return found
