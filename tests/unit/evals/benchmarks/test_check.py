"""What `agentflow data check` reads of a file, and what it finds wrong with it."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentflow.evals.benchmarks.check import FileCheck, check
from agentflow.evals.benchmarks.errors import BenchmarkError
from agentflow.evals.benchmarks.own import load
from tests.cases import table
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


@pytest.mark.parametrize(("name", "text", "expected"), table(__file__, "files.txt"))
def test_files_of_the_form_that_people_have_are_read_or_refused(
    name: str, text: str, expected: dict[str, str] | str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(text.encode())
    if isinstance(expected, dict):
        found = check(path)
        assert {place: one.gold for place, one in found.tasks.items()} == expected
        assert not {"A", "B", "C", "option1"} & {*found.unread}
        assert [one.gold for one in load(str(path)).tasks()] == [*expected.values()]
    else:
        with pytest.raises(BenchmarkError, match=expected):
            load(str(path))


def test_a_long_cell_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"question,answer,context\na,x,{'word ' * 50_000}\n")
    assert [*check(tmp_path / "a.csv").tasks] == ["line 2"]


def test_rows_that_differ_in_data_alone_are_not_repeated(tmp_path: Path) -> None:
    one = {"question": "Where?", "answer": "Rome", "options": None}
    found = checked(tmp_path, {**one, "aliases": ["Roma"]}, {**one, "aliases": ["Rom"]}, {**one, "aliases": ["Roma"]})
    assert (len(found.tasks), found.repeated) == (2, 1)
    tasks = load(str(tmp_path / "quiz.jsonl")).tasks()
    assert [task.data["aliases"] for task in tasks] == [["Roma"], ["Rom"]]
    assert len({task.id for task in tasks}) == 2


@pytest.mark.parametrize(
    ("rows", "code"),
    [([CHOICE], 0), ([CHOICE, {"question": "Which?"}], 1), ([{"question": "Which?"}], 2), ([], 2)],
)
def test_the_command_tells_by_its_code(rows: list[dict[str, Any]], code: int, tmp_path: Path) -> None:
    done = call("data", "check", written(tmp_path, *rows))
    assert done.exit_code == code, done.output
    assert ("C. 3" in done.stdout) == (CHOICE in rows)
