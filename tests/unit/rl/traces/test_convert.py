"""Conversion of several runs of a question: the rows written, their order, and bad input on the command line."""

from pathlib import Path
from typing import Any

import pytest

from agentflow.rl.apps.agent import read_tasks
from agentflow.rl.traces.convert import convert
from tests.command_line import call
from tests.unit.rl.traces.spans import Json, asked, rows, write


def converted(tmp_path: Path, *lines: Json, **settings: Any) -> Path:
    convert(write(tmp_path / "chat.jsonl", lines), tmp_path / "out", **settings)
    return tmp_path / "out"


def test_runs_of_one_question_are_one_task(tmp_path: Path) -> None:
    lines = [asked("B?", "1", score=0.5), asked("A?", "x"), asked("B?", "2", score=1), asked(" B? ", "3", score=0)]
    out = converted(tmp_path, *lines)
    [task] = rows(out / "tasks.jsonl")
    assert (task["question"], task["answer"], task["answer_from"], task["runs"]) == ("B?", "2", "accepted", 3)
    assert task["reward"] == 0.5
    assert [one["question"] for one in rows(out / "questions.jsonl")] == ["A?"]


@pytest.mark.parametrize(("runs", "answer", "source"), [(1, "10", "accepted"), (2, "11", "source"), (4, "12", "edit")])
def test_the_answer_of_a_person_comes_first(tmp_path: Path, runs: int, answer: str, source: str) -> None:
    lines = [asked("A?", "10", score=1), asked("A?", "11", answer="11"), asked("A?", "9", edit="12"), asked("A?", "12")]
    [task] = rows(converted(tmp_path, *lines[:runs]) / "tasks.jsonl")
    assert (task["answer"], task["answer_from"]) == (answer, source)


def test_an_answer_of_one_run_scores_the_others(tmp_path: Path) -> None:
    lines = [asked("A?", "9", edit="12"), asked("A?", "12"), asked("A?", "13"), asked("A?", "x", score=0.5)]
    [task] = rows(converted(tmp_path, *lines) / "tasks.jsonl")
    assert task["reward"] == (0 + 1 + 0 + 0.5) / 4


def test_the_lowest_reward_and_the_limit(tmp_path: Path) -> None:
    out = converted(tmp_path, *(asked(f"{n}?", "x", score=n / 4) for n in range(5)), min_reward=0.5, limit=4)
    assert [one["reward"] for one in rows(out / "tasks.jsonl")] == [0.5, 0.75]
    assert [one["reward"] for one in rows(out / "questions.jsonl")] == [0, 0.25]


def test_the_same_source_gives_the_same_bytes(tmp_path: Path) -> None:
    lines = [asked(f"{number % 7}?", f"{number}", score=number % 2) for number in range(30)]
    out = converted(tmp_path, *lines)
    first = {path.name: path.read_bytes() for path in out.iterdir()}
    assert {path.name: path.read_bytes() for path in converted(tmp_path, *lines).iterdir()} == first


def test_files_of_an_earlier_conversion_do_not_stay(tmp_path: Path) -> None:
    converted(tmp_path, asked("A?", "x", score=1))
    assert [path.name for path in converted(tmp_path, asked("A?", "x")).iterdir()] == ["questions.jsonl"]


def test_an_input_that_is_more_than_a_question_reaches_the_graph(tmp_path: Path) -> None:
    messages = [["user", "Hi"], ["assistant", "Hello"], ["user", "Who?"], ["assistant", "Me"]]
    [task] = read_tasks(converted(tmp_path, {"messages": messages, "score": 1}) / "tasks.jsonl", graded=True)
    assert [message["content"] for message in task.data["inputs"]["messages"]] == ["Hi", "Hello", "Who?"]
    assert (task.question, task.gold) == ("Who?", "Me")


@pytest.mark.parametrize(("line", "code"), [(asked("A?", "x", thumbs="up"), 0), ({"messages": []}, 2)])
def test_the_command(tmp_path: Path, line: Json, code: int) -> None:
    source = write(tmp_path / "chat.jsonl", [line, {"messages": 3}])
    done = call("data", "from-traces", source, "--out", tmp_path / "out")
    assert done.exit_code == code, done.output
    assert len(done.stderr.splitlines()) == bool(code)
    assert [one["answer"] for one in rows(tmp_path / "out" / "tasks.jsonl")] == ["x"] * (not code)
    assert "chat.jsonl, line 2" in done.stdout, "what was dropped"
