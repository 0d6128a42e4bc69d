"""Evaluation as a function: the same records as the command, resumed and complete."""

from pathlib import Path

import pytest

import agentflow
from agentflow.evals.benchmarks.errors import BenchmarkError
from agentflow.evals.record import Record
from agentflow.evals.results_store import ResultsError, read
from agentflow.graph.models.spec import ModelError


async def test_it_returns_every_record_and_keeps_them(tmp_path: Path) -> None:
    seen: list[Record] = []
    results = await agentflow.aevaluate("atlas", limit=2, epochs=2, out=tmp_path / "a", on_record=seen.append)
    assert len(results.records["atlas"]) == len(seen) == 4
    low, high = results.interval("atlas")
    assert low <= results.accuracy("atlas") <= high
    settings, kept = read(tmp_path / "a")
    assert {one.key for one in kept} == {one.key for one in seen}
    assert settings.provenance[0].call == ""


async def test_the_same_call_runs_what_is_left(tmp_path: Path) -> None:
    await agentflow.aevaluate("atlas", limit=2, out=tmp_path / "a")
    seen: list[Record] = []
    results = await agentflow.aevaluate("atlas", limit=3, out=tmp_path / "a", on_record=seen.append)
    assert (len(seen), len(results.records["atlas"])) == (1, 3)


def test_without_an_event_loop_it_is_a_plain_call() -> None:
    assert len(agentflow.evaluate("game24", limit=1).records["game24"]) == 1


async def test_what_is_wrong_with_a_call_is_raised_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError):
        await agentflow.aevaluate("nothing-of-the-kind")
    with pytest.raises(ModelError):
        await agentflow.aevaluate("atlas", context=agentflow.Context(model="nobody:x"))
    await agentflow.aevaluate("atlas", limit=1, out=tmp_path / "a")
    with pytest.raises(ResultsError):
        await agentflow.aevaluate("atlas", limit=1, agent="direct", out=tmp_path / "a")
