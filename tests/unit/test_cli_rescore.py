"""`agentflow eval rescore`, after an evaluation of a file of questions by a model on loopback."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from agentflow.cli import app
from agentflow.evals import results_store
from agentflow.evals.record import Record
from agentflow.evals.scorers.score import Decision
from tests.fake_openai import FakeOpenAI, Request
from tests.runs import record, write_run

QUESTIONS = {"Which city?": ("Istanbul", "Constantinople"), "Which year?": ("1929", "1929"), "Who?": ("Ada", "Bob")}


@dataclass
class Served:
    url: str
    asked: list[Request]


def _reply(body: dict[str, Any]) -> str:
    """The model that answers, or a judge: the strict one rejects, all others accept."""
    text = body["messages"][-1]["content"]
    if text.startswith("{"):
        return f"Verdict: {'incorrect' if body['model'] == 'strict' else 'correct'}"
    return "Answer: " + next(answer for question, (_, answer) in QUESTIONS.items() if question in text)


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with FakeOpenAI(_reply, models=("any", "kind", "strict", "other")) as server:
        yield Served(server.base_url, server.requests)


@pytest.fixture
def quiz(tmp_path: Path) -> Path:
    path = tmp_path / "quiz.jsonl"
    path.write_text("".join(json.dumps({"question": q, "answer": gold}) + "\n" for q, (gold, _) in QUESTIONS.items()))
    return path


@pytest.fixture
def folder(served: Served, quiz: Path, tmp_path: Path) -> Path:
    out = tmp_path / "run"
    done = run(quiz, "--agent", "direct", "--model", f"vllm:any@{served.url}", "--out", out)
    assert done.exit_code == 0, done.output
    served.asked.clear()
    return out


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["eval", *map(str, arguments)])


def by_question(folder: Path) -> dict[str, Record]:
    return {one.task.question: one for one in results_store.read(folder)[1]}


def test_a_judge_decides_what_the_rule_left_and_nothing_is_generated(folder: Path, quiz: Path, served: Served) -> None:
    assert by_question(folder)["Which city?"].decision == Decision.UNDECIDED
    done = run("rescore", folder, "--benchmark", quiz, "--judge", f"vllm:kind@{served.url}")
    assert done.exit_code == 0, done.output
    found = by_question(folder)
    assert {one.decision for one in found.values()} == {Decision.CORRECT}
    city = found["Which city?"]
    assert [one.decision for one in city.rulings] == [Decision.UNDECIDED, Decision.CORRECT]
    assert "vllm:kind@" in city.rulings[-1].by
    assert {request.body["model"] for request in served.asked} == {"kind"}
    assert found["Which year?"].rulings == ()


def test_the_same_call_again_adds_nothing(folder: Path, quiz: Path, served: Served) -> None:
    call = ("rescore", folder, "--benchmark", quiz, "--judge", f"vllm:kind@{served.url}")
    run(*call)
    kept, asked = (folder / results_store.RULINGS).read_bytes(), len(served.asked)
    assert run(*call).exit_code == 0
    assert ((folder / results_store.RULINGS).read_bytes(), len(served.asked)) == (kept, asked)


def test_of_several_judges_the_majority_counts(folder: Path, quiz: Path, served: Served) -> None:
    judges = [word for name in ("kind", "strict") for word in ("--judge", f"vllm:{name}@{served.url}")]
    done = run("rescore", folder, "--benchmark", quiz, *judges)
    assert "kappa" in done.stdout
    assert by_question(folder)["Which city?"].decision == Decision.UNDECIDED
    run("rescore", folder, "--benchmark", quiz, "--judge", f"vllm:other@{served.url}")
    assert by_question(folder)["Which city?"].decision == Decision.CORRECT
    assert len(by_question(folder)["Which city?"].rulings) == 4


def test_a_mended_rule_is_told_from_the_one_before(folder: Path, quiz: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from agentflow.evals.benchmarks import own
    from agentflow.evals.scorers.score import decided

    monkeypatch.setattr(own, "free_text", lambda answer, golds: decided(False, "a stricter rule"))
    assert run("rescore", folder, "--benchmark", quiz, "--dry-run").exit_code == 0
    assert not (folder / results_store.RULINGS).exists()
    run("rescore", folder, "--benchmark", quiz)
    year = by_question(folder)["Which year?"]
    assert (year.decision, year.decided_by) == (Decision.INCORRECT, "a stricter rule")
    assert [one.decision for one in year.rulings] == [Decision.CORRECT, Decision.INCORRECT]


def test_a_person_has_the_last_word(folder: Path, quiz: Path, served: Served) -> None:
    city = by_question(folder)["Which city?"].task.id
    done = run("rescore", folder, "--correct", city[:10], "--by", "R. Reader", "--why", "the same city")
    assert done.exit_code == 0, done.output
    run("rescore", folder, "--benchmark", quiz, "--judge", f"vllm:strict@{served.url}")
    found = by_question(folder)["Which city?"]
    assert found.decision == Decision.CORRECT
    assert (found.rulings[1].by, found.rulings[1].why) == ("R. Reader", "the same city")


def test_tries_are_counted_from_one_as_in_the_passport(tmp_path: Path) -> None:
    path = write_run(tmp_path / "a", [record(0, sample=sample, correct=False) for sample in (0, 1)], epochs=2)
    done = run("rescore", path, "--correct", f"{0:016x}/1", "--by", "me", "--why", "so")
    assert done.exit_code == 0, done.output
    assert {one.sample: one.correct for one in results_store.read(path)[1]} == {0: True, 1: False}


def test_answers_are_scored_with_the_tasks_of_their_records(folder: Path, quiz: Path) -> None:
    before = by_question(folder)
    quiz.write_text('{"question": "Another?", "answer": "x"}\n')
    assert run("rescore", folder, "--benchmark", quiz).exit_code == 0
    assert by_question(folder) == before
