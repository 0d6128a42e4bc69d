"""Evaluation as a function: the same records as the command, resumed and complete."""

from pathlib import Path
from typing import Any

import agentflow
from agentflow.evals.record import Record
from agentflow.evals.results_store import read

ORACLE = agentflow.Context(model="atlas-oracle")


async def test_it_returns_every_record_and_keeps_them(tmp_path: Path) -> None:
    seen: list[Record] = []
    call: dict[str, Any] = {"context": ORACLE, "epochs": 2, "out": tmp_path / "a", "on_record": seen.append}
    results = await agentflow.aevaluate("atlas", limit=2, **call)
    assert len(results.records["atlas"]) == len(seen) == 4
    low, high = results.interval("atlas")
    assert low <= results.accuracy("atlas") <= high
    settings, kept = read(tmp_path / "a")
    assert {one.key for one in kept} == {one.key for one in seen}
    assert settings.provenance[0].call == ""
    more = await agentflow.aevaluate("atlas", limit=3, **call)
    assert len(more.records["atlas"]) == len(seen) == 6, "the same call runs what is left"


async def test_tasks_are_selected_as_by_the_command(tmp_path: Path) -> None:
    chosen = agentflow.Selection(span="2:12", sample=3, seed=1)
    results = await agentflow.aevaluate("atlas", context=ORACLE, selection=chosen, limit=2, out=tmp_path / "a")
    assert len(results.records["atlas"]) == 2


async def test_the_limits_of_a_sample_reach_the_run() -> None:
    over = await agentflow.aevaluate("atlas", limit=1, budget=agentflow.Budget(tokens=1))
    late = await agentflow.aevaluate("atlas", limit=1, seconds=1e-6, retries=1)
    assert [record.failed for record in (*over.records["atlas"], *late.records["atlas"])] == [True, True]


def test_without_an_event_loop_it_is_a_plain_call() -> None:
    assert len(agentflow.evaluate("atlas", context=ORACLE, limit=1).records["atlas"]) == 1
