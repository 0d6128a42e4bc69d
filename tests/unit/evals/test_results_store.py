"""The folder of an evaluation: no record is lost or mixed with those of other settings, and it says who made it."""

import gc
import json
import os
from pathlib import Path
from typing import Any

import pytest

from agentflow.evals.benchmarks.benchmark import Benchmark, Judging
from agentflow.evals.items import items, unfinished
from agentflow.evals.record import Dataset, EvaluationSettings, Provenance, Record, ToolProvenance
from agentflow.evals.results_store import ResultsStore, read
from agentflow.evals.run_folder import RunFolderError, read_settings
from agentflow.evals.scorers.score import decided
from agentflow.graph.context import Context
from agentflow.graph.run.task import Task
from agentflow.tools.card import UNKNOWN
from tests.cases import table
from tests.failing import fails
from tests.runs import record, write_run
from tests.trainings import begin

FIRST = Provenance(
    at="2026-01-01T00:00:00+00:00",
    call="agentflow eval bamboogle --out runs/a",
    versions={"agentflow": "0.1.0", "langgraph": "1.2.1"},
    tools={"stock": ToolProvenance(model=UNKNOWN, card="ccc")},
)
SECOND = FIRST.model_copy(update={"at": "2026-02-01T00:00:00+00:00", "versions": {"langgraph": "1.2.2", "mcp": "2.0"}})
QUIZ = Benchmark("bamboogle", "", "", 3, rule=lambda *_: decided(True, "exact"), judging=Judging.NEVER)
ASKED = items(QUIZ, [Task(id=f"{n:016x}", question=f"Question {n}?", gold="g") for n in range(3)], 1)


def settings(*by: Provenance, **changed: Any) -> EvaluationSettings:
    known = {"benchmarks": {"bamboogle": Dataset(questions=9, digest="d")}, "context": Context()}
    return EvaluationSettings(**{**known, "provenance": list(by), **changed})


def go_on(folder: Path, made: EvaluationSettings, *records: Record) -> ResultsStore:
    """Add records to a folder, and return its store, closed."""
    store = ResultsStore(folder, made)
    for one in records:
        store.add(one)
    store.close()
    return store


def test_a_journal_takes_up_where_a_kill_left_it(tmp_path: Path) -> None:
    go_on(tmp_path, settings(), record(0), record(1))
    path = tmp_path / "traces.jsonl"
    torn = path.read_bytes()[:-20]
    path.write_bytes(torn)
    assert [one.key for one in read(tmp_path)[1]] == [ASKED[0].key]
    assert path.read_bytes() == torn
    before = (tmp_path / "traces.jsonl").read_bytes()
    resumed = go_on(tmp_path, settings(), record(2))
    assert unfinished(ASKED, resumed.by_key) == [ASKED[1]]
    assert (tmp_path / "traces.jsonl").read_bytes() != before
    kept = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["task"]["question"] for line in kept] == ["Question 0?", "Question 2?"]
    assert list(kept[0])[:2] == ["task", "analysis"], "what a reader looks for comes first"


def test_a_run_that_broke_off_is_tried_again_if_asked_for_and_the_later_record_counts(tmp_path: Path) -> None:
    store, asked = go_on(tmp_path, settings(), record(0, error="down")), ASKED[:1]
    assert unfinished(asked, store.by_key) == []
    assert unfinished(asked, store.by_key, retry=True) == asked
    go_on(tmp_path, settings(), record(0))
    resumed = go_on(tmp_path, settings())
    assert resumed.by_key[asked[0].key].correct
    assert unfinished(asked, resumed.by_key, retry=True) == []


@pytest.mark.parametrize(
    ("other", "name"),
    [
        (settings(context=Context(max_turns=3)), "max_turns"),
        (settings(judge="vllm:judge"), "judge"),
        (settings(checkpoints={"embedded": "trained anew"}), "checkpoints"),
        (settings(benchmarks={"bamboogle": Dataset(questions=9, digest="other rows")}), "bamboogle"),
    ],
)
def test_a_folder_of_other_settings_is_refused_by_name(other: EvaluationSettings, name: str, tmp_path: Path) -> None:
    go_on(tmp_path, settings(), record(0))
    with fails(RunFolderError, "other_settings", name, "--out"):
        ResultsStore(tmp_path, other)


def test_questions_benchmarks_and_epochs_may_be_added_to_a_folder(tmp_path: Path) -> None:
    go_on(tmp_path, settings(benchmarks={"a": Dataset(questions=3, digest="a")}, epochs=2), record(0))
    more = {"a": Dataset(questions=2, digest="a"), "b": Dataset(questions=5, digest="b")}
    go_on(tmp_path, settings(benchmarks=more), record(0))
    found, _ = read(tmp_path)
    assert {name: one.questions for name, one in found.benchmarks.items()} == {"a": 3, "b": 5}
    assert (found.epochs, found.number) == (2, 16)


def test_two_evaluations_do_not_share_a_folder(tmp_path: Path) -> None:
    store = ResultsStore(tmp_path, settings())
    with fails(RunFolderError, "locked"):
        ResultsStore(tmp_path, settings())
    store.close()


@pytest.mark.parametrize(("content", "code"), table(__file__, "settings.txt"))
def test_traces_without_settings_of_this_version_are_not_mixed_with_new_ones(
    tmp_path: Path, content: str | None, code: str
) -> None:
    (tmp_path / "traces.jsonl").write_text("{}\n")
    if content is not None:
        (tmp_path / "settings.json").write_text(content)
    with fails(RunFolderError, code, tmp_path):
        ResultsStore(tmp_path, settings())


def test_a_line_that_is_no_trace_is_named(tmp_path: Path) -> None:
    go_on(tmp_path, settings())
    (tmp_path / "traces.jsonl").write_text('{"a": 1}\n')
    with fails(RunFolderError, "bad_line", "line 1"):
        ResultsStore(tmp_path, settings())
    assert gc.isenabled(), "reading pauses the garbage collector"


# ---------------------------------------------------------------- what it was made with


def test_each_program_and_call_that_added_tries_is_kept_and_no_other(tmp_path: Path) -> None:
    larger = FIRST.model_copy(update={"at": "later", "call": f"{FIRST.call} --limit 3"})
    changes = ["agentflow absent (0.1.0 before)", "langgraph 1.2.2 (1.2.1 before)", "mcp 2.0 (absent before)"]
    for by, numbers, differences in (
        (FIRST, (0, 1), []),
        (FIRST.model_copy(update={"at": "later"}), (4,), []),
        (larger, (2,), []),
        (SECOND, (), changes),
        (SECOND, (3,), changes),
    ):
        store = ResultsStore(tmp_path, settings(by))
        assert store.differences == differences
        for number in numbers:
            store.add(record(number))
        store.close()
    found, records = read(tmp_path)
    later = [larger.model_copy(update={"before": 3}), SECOND.model_copy(update={"before": 4})]
    assert found.provenance == [FIRST, *later]
    assert len(records) == 5


def test_a_folder_of_an_earlier_version_is_read_and_gone_on_with(tmp_path: Path) -> None:
    go_on(tmp_path, settings(), record(0), record(1))
    path = tmp_path / "settings.json"
    path.write_text(path.read_text().replace(',\n  "provenance": []', ""))
    assert "provenance" not in path.read_text()
    assert read(tmp_path)[0].provenance == []
    assert go_on(tmp_path, settings(FIRST), record(2)).differences == []
    assert read(tmp_path)[0].provenance == [FIRST.model_copy(update={"before": 2})]


def test_no_secret_is_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-0123456789abcdef")
    call = "agentflow eval bamboogle --tools mcp:https://x/?key=sk-0123456789abcdef"
    go_on(tmp_path, settings(FIRST.model_copy(update={"call": call})), record(0))
    assert "sk-0123456789abcdef" not in (tmp_path / "settings.json").read_text()


# ---------------------------------------------------------------- which kind of run


def test_a_training_is_not_read_as_an_evaluation_nor_the_other_way(tmp_path: Path) -> None:
    training = pytest.importorskip("agentflow.rl.settings", reason="the extra train is not installed")
    with fails(RunFolderError, "other_kind", "evaluation"):
        read_settings(write_run(tmp_path / "e", [record(0)]), training.TrainingSettings)
    with fails(RunFolderError, "other_kind", "training"):
        read_settings(begin(tmp_path / "t", 3), EvaluationSettings)


@pytest.mark.parametrize("name", ["settings.json", "traces.jsonl"])
def test_a_pipe_in_place_of_a_file_is_an_error_and_no_wait(name: str, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [record(0)])
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with fails(RunFolderError, "unreadable"):
        read(folder)
