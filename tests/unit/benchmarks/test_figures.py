"""The first page shows what ships, measured on questions that nothing was chosen by."""

import json

import pytest

from agentflow.evals.benchmarks.catalogue import benchmark
from agentflow.rl.apps.planner import tasks
from agentflow.rl.apps.trainable import AppError
from benchmarks.figures import BLOCK, PAGE, RECORDED, table


def test_the_page_shows_what_the_command_recorded() -> None:
    assert BLOCK.findall(PAGE.read_text(encoding="utf-8")) == [table(json.loads(RECORDED.read_text()))]


def test_no_validation_and_no_evaluation_sees_the_final_questions() -> None:
    found = {subset: {one.id for one in benchmark("atlas").tasks(subset)} for subset in ("train", "test", "final")}
    assert len(found["final"]) == json.loads(RECORDED.read_text())["questions"] == 200
    assert not found["final"] & (found["train"] | found["test"])
    assert len(tasks("test", 600)) == 600
    with pytest.raises(AppError):
        tasks("test", 601)
