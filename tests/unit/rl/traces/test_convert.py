"""Conversion of several runs of a question: the rows written, their order, and the memory used."""

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agentflow.cli import app
from agentflow.rl.agent import read_tasks
from agentflow.rl.traces import lines
from agentflow.rl.traces.convert import convert
from agentflow.rl.traces.ledger import Reason
from tests.unit.rl.traces.spans import Json, chat_span, request, write


def row(question: str, reply: str, **found: Any) -> Json:
    return {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": reply}], **found}


def rows(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def converted(tmp_path: Path, *asked: Json, **settings: Any) -> Path:
    convert(write(tmp_path / "chat.jsonl", asked), tmp_path / "out", **settings)
    return tmp_path / "out"


def test_runs_of_one_question_are_one_task(tmp_path: Path) -> None:
    asked = [row("B?", "1", score=0.5), row("A?", "x"), row("B?", "2", score=1), row(" B? ", "3", score=0)]
    out = converted(tmp_path, *asked)
    [task] = rows(out / "tasks.jsonl")
    assert (task["question"], task["answer"], task["answer_from"], task["runs"]) == ("B?", "2", "accepted", 4 - 1)
    assert task["reward"] == 0.5
    assert [one["question"] for one in rows(out / "questions.jsonl")] == ["A?"]
    assert [one["messages"][-1]["content"] for one in rows(out / "sft.jsonl")] == ["2"]
    [pair] = rows(out / "preferences.jsonl")
    assert (pair["chosen"][0]["content"], pair["rejected"][0]["content"]) == ("2", "3")


def test_the_answer_of_a_person_comes_before_the_sources_and_an_accepted_one(tmp_path: Path) -> None:
    asked = [row("A?", "10", score=1), row("A?", "11", answer="11"), row("A?", "9", edit="12"), row("A?", "12")]
    for number, (answer, answer_from) in enumerate([("10", "accepted"), ("11", "source"), ("12", "edit")], start=1):
        [task] = rows(converted(tmp_path, *asked[:number]) / "tasks.jsonl")
        assert (task["answer"], task["answer_from"]) == (answer, answer_from)


def test_an_answer_of_one_run_scores_the_others(tmp_path: Path) -> None:
    out = converted(tmp_path, row("A?", "9", edit="12"), row("A?", "12"), row("A?", "13"), row("A?", "x", score=0.5))
    [task] = rows(out / "tasks.jsonl")
    assert task["reward"] == (0 + 1 + 0 + 0.5) / 4
    assert [one["messages"][-1]["content"] for one in rows(out / "sft.jsonl")] == ["12"]


def test_pairs_join_the_best_with_the_worst(tmp_path: Path) -> None:
    scores = {"a": 1, "b": 0.75, "c": 0.5, "d": 0.25, "e": 0.25}
    out = converted(tmp_path, *(row("A?", reply, score=score) for reply, score in scores.items()))
    pairs = [(one["chosen"][0]["content"], one["rejected"][0]["content"]) for one in rows(out / "preferences.jsonl")]
    assert pairs == [("a", "e"), ("b", "d")]


def test_the_lowest_reward_and_the_limit(tmp_path: Path) -> None:
    asked = [row(f"{number}?", "x", score=number / 4) for number in range(5)]
    out = converted(tmp_path, *asked, min_reward=0.5, limit=4)
    assert [one["reward"] for one in rows(out / "sft.jsonl")] == [0.5, 0.75]
    assert len(rows(out / "tasks.jsonl")) + len(rows(out / "questions.jsonl")) == 4
    dropped = json.loads((out / "dropped.json").read_text())["dropped"]
    assert dropped[Reason.BEYOND_LIMIT.name.lower()]["places"] == ["chat.jsonl, line 5"]


def test_the_same_source_gives_the_same_bytes_and_its_conversations_can_be_read_again(tmp_path: Path) -> None:
    asked = [row(f"{number % 7}?", f"{number}", score=number % 2, node="a/b") for number in range(30)]
    out = converted(tmp_path, *asked)
    first = {path.name: path.read_bytes() for path in out.iterdir()}
    assert {path.name: path.read_bytes() for path in converted(tmp_path, *asked).iterdir()} == first
    convert(out / "sft.jsonl", tmp_path / "again")
    assert (tmp_path / "again" / "sft.jsonl").read_bytes() == first["sft.jsonl"]


def test_files_of_an_earlier_conversion_do_not_stay(tmp_path: Path) -> None:
    converted(tmp_path, row("A?", "x", score=1), row("A?", "y", score=0))
    out = converted(tmp_path, row("A?", "x"))
    assert {path.name for path in out.iterdir()} == {"questions.jsonl", "dropped.json"}


def test_an_input_that_is_more_than_a_question_reaches_the_graph(tmp_path: Path) -> None:
    messages = [["user", "Hi"], ["assistant", "Hello"], ["user", "Who?"], ["assistant", "Me"]]
    out = converted(tmp_path, {"messages": messages, "score": 1})
    [task] = read_tasks(out / "tasks.jsonl", graded=True)
    assert [message["content"] for message in task.data["inputs"]["messages"]] == ["Hi", "Hello", "Who?"]
    assert (task.question, task.gold) == ("Who?", "Me")


@pytest.mark.parametrize("document", [False, True])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, document: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "CHUNK", 100_000)

    def peak(traces: int) -> int:
        spans = [chat_span("a", f"Question {number}?", "x" * 20_000, trace=str(number)) for number in range(traces)]
        source = tmp_path / f"{traces}.json"
        write(source, map(request, spans))
        if document:
            source.write_text(json.dumps(request(*spans), indent=1))
        tracemalloc.start()
        try:
            convert(source, tmp_path / "out")
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(10)
    assert peak(250) < peak(50) + 1_500_000, "4 MB more were read"


def test_the_command(tmp_path: Path) -> None:
    source = write(tmp_path / "chat.jsonl", [row("A?", "x", thumbs="up")])
    done = CliRunner().invoke(app, ["data", "from-traces", str(source), "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert "tasks.jsonl" in done.output
    assert rows(tmp_path / "out" / "tasks.jsonl")[0]["answer"] == "x"


def test_a_source_without_anything_to_use_is_an_error(tmp_path: Path) -> None:
    source = write(tmp_path / "chat.jsonl", [{"messages": []}])
    done = CliRunner().invoke(app, ["data", "from-traces", str(source), "--out", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert len(done.stderr.splitlines()) == 1
    assert (tmp_path / "out" / "dropped.json").exists()


@pytest.mark.process
def test_it_needs_neither_torch_nor_the_extras(tmp_path: Path) -> None:
    source = write(tmp_path / "chat.jsonl", [row("A?", "x", score=1)])
    program = """
import sys
from pathlib import Path
from agentflow.rl.traces import lines
from agentflow.rl.traces.convert import convert
convert(Path(sys.argv[1]), Path(sys.argv[2]))
print(*(name.partition(".")[0] for name in sys.modules))
"""
    command = [sys.executable, "-c", program, str(source), str(tmp_path / "out")]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert not {*loaded} & {"torch", "transformers", "verl", "ray", "omegaconf", "pyarrow"}
