"""`agentflow eval rescore`, after an evaluation of a file of questions by a model on loopback."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentflow.evals import results_store
from agentflow.evals.record import Record
from agentflow.evals.scorers.score import Decision
from agentflow.view.calls import CallsFile
from tests.command_line import succeeds
from tests.fake_openai import FakeOpenAI

QUESTIONS = {"Which city?": ("Istanbul", "Constantinople"), "Which year?": ("1929", "1929"), "Who?": ("Ada", "Bob")}


def _reply(body: dict[str, Any]) -> str:
    """The model that answers, or a judge, who accepts."""
    text = body["messages"][-1]["content"]
    if text.startswith("{"):
        return "Verdict: correct"
    return "Answer: " + next(answer for question, (_, answer) in QUESTIONS.items() if question in text)


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeOpenAI]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with FakeOpenAI(_reply, models=("any", "kind")) as server:
        yield server


@pytest.fixture
def quiz(tmp_path: Path) -> Path:
    path = tmp_path / "quiz.jsonl"
    path.write_text("".join(json.dumps({"question": q, "answer": gold}) + "\n" for q, (gold, _) in QUESTIONS.items()))
    return path


@pytest.fixture
def folder(served: FakeOpenAI, quiz: Path, tmp_path: Path) -> Path:
    out = tmp_path / "run"
    succeeds("eval", quiz, "--agent", "direct", "--model", f"vllm:any@{served.base_url}", "--out", out)
    served.requests.clear()
    return out


def by_question(folder: Path) -> dict[str, Record]:
    return {one.task.question: one for one in results_store.read(folder)[1]}


def test_a_judge_decides_what_the_rule_left_and_nothing_is_generated(
    folder: Path, quiz: Path, served: FakeOpenAI
) -> None:
    before = [one.decision for one in by_question(folder).values()]
    assert by_question(folder)["Which city?"].decision == Decision.UNDECIDED
    traces = folder / results_store.TRACES
    first, calls = traces.read_bytes(), CallsFile(traces)
    known = [calls.of(line) for line in first.splitlines()]
    call = ("eval", "rescore", folder, "--benchmark", quiz, "--judge", f"vllm:kind@{served.base_url}")
    done = succeeds(*call)
    [row] = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith(quiz.name)]
    right, unclear = before.count(Decision.CORRECT), before.count(Decision.UNDECIDED)
    assert [*map(int, row)] == [3, right, 3, unclear, 0, 3 - right]
    found = by_question(folder)
    assert {one.decision for one in found.values()} == {Decision.CORRECT}
    assert found["Which city?"].decided_by == "judge"
    assert {request.body["model"] for request in served.requests} == {"kind"}
    settings, _ = results_store.read(folder)
    assert settings.judge.startswith("vllm:kind@")
    assert [one.before for one in settings.provenance] == [0, 3]
    after = traces.read_bytes()
    assert after.startswith(first)
    again = [calls.of(line) for line in after.removeprefix(first).splitlines()]
    assert again
    assert all(one in known for one in again), "a score of a try keeps its calls"
    kept, asked = (folder / "traces.jsonl").read_bytes(), len(served.requests)
    succeeds(*call)
    assert ((folder / "traces.jsonl").read_bytes(), len(served.requests)) == (kept, asked), (
        "the same call again adds nothing"
    )
    succeeds("eval", "rescore", folder, "--benchmark", quiz)
    assert by_question(folder) == found, "without a judge, its decisions stay"


def test_a_mended_rule_is_told_from_the_one_before(folder: Path, quiz: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from agentflow.evals.benchmarks import own
    from agentflow.evals.scorers.score import decided

    for rule in ("free_text", "number"):
        monkeypatch.setattr(own, rule, lambda *_: decided(False, "a stricter rule"))
    before = (folder / "traces.jsonl").read_bytes()
    succeeds("eval", "rescore", folder, "--benchmark", quiz, "--dry-run")
    assert (folder / "traces.jsonl").read_bytes() == before
    succeeds("eval", "rescore", folder, "--benchmark", quiz)
    year = by_question(folder)["Which year?"]
    assert (year.decision, year.decided_by) == (Decision.INCORRECT, "a stricter rule")


def test_answers_are_scored_with_the_tasks_of_their_records(folder: Path, quiz: Path) -> None:
    before = by_question(folder)
    assert not succeeds("eval", "rescore", folder, "--benchmark", quiz, "--dry-run").stderr
    quiz.write_text(quiz.read_text().replace('"1929"', '"1930"'))
    assert "1 question changed" in succeeds("eval", "rescore", folder, "--benchmark", quiz).stderr
    assert by_question(folder) == before
