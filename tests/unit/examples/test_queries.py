"""The database that a public agent was trained to ask, its questions, and the reward."""

import json
import sqlite3
from pathlib import Path

import pytest

from agentflow.graph.run.task import Task
from examples.agents import queries

TASK = Task(id="1", question="", data={"rows": [["Ann", 3], ["Ben", None]]})


@pytest.mark.parametrize(
    ("execution", "reward"),
    [
        ("[('Ann', 3), ('Ben', None)]", 1),
        ("[('Ben', None), ('Ann', 3)]", 1),
        ("[('Ann', 3)]", 0),
        ("[(3, 'Ann'), (None, 'Ben')]", 0),
        ("", 0),
        ("Error: (sqlite3.OperationalError) no such column: nam", 0),
    ],
)
def test_the_rows_that_answer_the_question_are_rewarded_in_any_order(execution: str, reward: float) -> None:
    assert queries.score(TASK, {"execution": execution}) == reward


def test_each_question_is_answered_by_its_query(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    queries.main(str(tmp_path / "shop.db"))
    tasks = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len({task["inputs"]["question"] for task in tasks}) == len(tasks) > 100
    database = sqlite3.connect(tmp_path / "shop.db")
    for task in tasks:
        found = str(database.execute(task["query"]).fetchall())
        assert queries.score(Task(id="1", question="", data=task), {"execution": found}) == 1
