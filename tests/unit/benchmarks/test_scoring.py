"""The scoring measurement scores every benchmark, right answers among wrong ones."""

from agentflow.evals.runner import Runner
from agentflow.graph.agent import graph
from agentflow.graph.context import Context
from agentflow.graph.run.trace import Trace
from benchmarks.scoring import ANSWERS, ROWS, items


async def test_each_benchmark_is_scored_and_none_crashes() -> None:
    evaluation = Runner(graph, Context())
    for item in items():
        traces = [Trace(task=item.task, answer=answer, status="answered") for answer in (item.task.gold, *ANSWERS)]
        records = [await evaluation.record(item, trace) for trace in traces]
        assert records[0].correct
        assert not all(record.correct for record in records)
        assert not any(record.failed for record in records)
    assert len(items()) == len(ROWS) == 10
