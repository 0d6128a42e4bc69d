"""What `agentflow data check` reads of a file, and what it finds wrong with it."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentflow.evals.benchmarks.check import FileCheck, check
from tests.command_line import call

CHOICE = {"question": "2 + 1?", "choices": ["1", "2", "3", "4"], "answer": 2}


def written(folder: Path, *rows: dict[str, Any]) -> Path:
    path = folder / "quiz.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def checked(folder: Path, *rows: dict[str, Any]) -> FileCheck:
    return check(written(folder, *rows))


def test_what_is_read_of_a_file(tmp_path: Path) -> None:
    answers = [42, "May 1, 1900", True, "[0, 1)", "Rome", "6 * 7\n#### 42"]
    rows = [{"question": f"Question {n}?", "answer": answer, "level": 1} for n, answer in enumerate(answers)]
    found = checked(tmp_path, *rows, rows[0])
    assert found.types == {"number": 2, "date": 1, "yes or no": 1, "interval or set": 1, "text": 1}
    assert (len(found.tasks), found.repeated, found.unread, found.problems) == (6, 1, ["level"], [])
    choice = checked(tmp_path, CHOICE)
    assert ([one.gold for one in choice.tasks.values()], choice.types) == (["C. 3"], {"option": 1})
    assert choice.problems == []


@pytest.mark.parametrize(
    ("rows", "places"),
    [
        ([CHOICE, {"question": "Which?"}], ["line 2"]),
        ([CHOICE, {**CHOICE, "answer": 3}], ["line 2"]),
        ([{"question": "Where?", "answer": "Rome"}, {"question": "Where?", "answer": "Paris"}], ["line 2"]),
        ([{"question": "Where?", "answer": "Rome", "gold": "Paris"}], ["line 1"]),
        ([{"question": "How many?", "answer": "many", "score_as": "number"}], ["line 1"]),
        ([{"question": "How many?", "answer": "7", "score_as": "sum"}], ["line 1"]),
        ([{**CHOICE, "choices": ["1", "2", "3", "3 "]}], ["line 1"]),
        ([{"question": "Why?", "answer": "..."}], []),
    ],
)
def test_problems_have_their_place(rows: list[dict[str, Any]], places: list[str], tmp_path: Path) -> None:
    problems = checked(tmp_path, *rows).problems
    assert [problem[:6] for problem in problems] == places


@pytest.mark.parametrize(
    ("rows", "code"),
    [([CHOICE], 0), ([CHOICE, {"question": "Which?"}], 1), ([{"question": "Which?"}], 2), ([], 2)],
)
def test_the_command_tells_by_its_code(rows: list[dict[str, Any]], code: int, tmp_path: Path) -> None:
    done = call("data", "check", written(tmp_path, *rows))
    assert done.exit_code == code, done.output
    assert ("C. 3" in done.stdout) == (CHOICE in rows)
