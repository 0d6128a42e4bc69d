"""Scoring of stored answers again, without running the agent: after a rule was mended, or with a judge."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from agentflow.evals.benchmarks.benchmark import AnswerJudge, Benchmark
from agentflow.evals.record import Record
from agentflow.evals.scorers.score import Decision
from agentflow.graph.models.spec import ModelError

CONCURRENCY = 32


async def rescore(
    records: Sequence[Record],
    benchmarks: Mapping[str, Benchmark],
    judge: AnswerJudge | None,
    on_end: Callable[[], None],
) -> tuple[list[Record], list[str]]:
    """Return all records as they count by the current rules and `judge`, and the errors of the judge.

    A record keeps its score if the judge fails, and a judge's decision if the rule is undecided and there is no judge.
    `on_end` is called after each record. Raises ModelError if the judge's settings are wrong.
    """
    failures: list[str] = []
    free = asyncio.Semaphore(CONCURRENCY)

    async def scored(record: Record) -> Record:
        async with free:
            try:
                return await _again(record, benchmarks[record.benchmark], judge) if record.scorable else record
            except ModelError as error:
                if error.configuration:
                    raise
                failures.append(str(error))
                return record
            finally:
                on_end()

    return await asyncio.gather(*map(scored, records)), failures


async def _again(record: Record, benchmark: Benchmark, judge: AnswerJudge | None) -> Record:
    score = await benchmark.decide(record.task, record.answer, judge)
    if score.decision == Decision.UNDECIDED and record.decided_by == "judge" and judge is None:
        return record
    changed = {"decision": score.decision, "metrics": {**record.metrics, **score.metrics}}
    if changed == {name: getattr(record, name) for name in changed}:
        return record
    return record.model_copy(update={**changed, "decided_by": score.decided_by})
