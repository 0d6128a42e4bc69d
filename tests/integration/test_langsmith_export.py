"""Evaluations as LangSmith has them: files offline, and an upload by its own client to a server on loopback."""

import json
from pathlib import Path
from typing import Any

import pytest
from langsmith.schemas import ExampleCreate, RunBase
from pytest_httpserver import HTTPServer
from typer.testing import CliRunner, Result

from agentflow.cli import app
from agentflow.evals.scorers.score import Decision
from agentflow.tools.result import ErrorClass
from tests.fake_langsmith import FakeLangSmith
from tests.runs import record, turn, write_run

KEY = "lsv2_pt_test"


@pytest.fixture(autouse=True)
def _no_account(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LANGSMITH_API_KEY", "LANGCHAIN_API_KEY", "LANGSMITH_ENDPOINT", "LANGCHAIN_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def folders(tmp_path: Path) -> list[str]:
    """Two evaluations of the same two questions; the second has an undecided answer and a failed run."""
    turns = [turn(1), turn(2, "wikipedia_search", ErrorClass.EMPTY_RESULT, output="nothing", arguments={"query": "x"})]
    seed = write_run(tmp_path / "seed", [record(n, turns=turns) for n in range(2)])
    odd = [record(0, decision=Decision.UNDECIDED, turns=turns), record(1, error="the endpoint is down")]
    trained = write_run(tmp_path / "trained", odd)
    return [str(seed), str(trained)]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["eval", "langsmith", *arguments])


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_files_are_what_the_client_would_send(folders: list[str], tmp_path: Path) -> None:
    done = run(*folders, "--out", str(tmp_path / "out"))
    assert done.exit_code == 0, done.output
    folder = tmp_path / "out" / "bamboogle"
    examples = [ExampleCreate(**line) for line in lines(folder / "examples.jsonl")]
    assert [one.inputs for one in examples] == [{"question": "Question 0?"}, {"question": "Question 1?"}]
    assert examples[0].reference_outputs == {"answer": "the gold"}
    runs = [RunBase.model_validate(line) for line in lines(folder / "seed" / "runs.jsonl")]
    assert [one.name for one in runs[:5]] == ["agentflow", "turn 1", "python_coder", "turn 2", "wikipedia_search"]
    assert [one.reference_example_id for one in runs if one.reference_example_id] == [one.id for one in examples]
    assert runs[4].error == "empty_result: nothing"
    assert lines(folder / "seed" / "feedback.jsonl")[0]["score"] == 1.0
    undecided, failed = lines(folder / "trained" / "feedback.jsonl")
    assert (undecided["score"], failed["score"], failed["comment"]) == (None, 0.0, "crash")


def test_every_run_is_below_its_parent(folders: list[str], tmp_path: Path) -> None:
    run(*folders, "--out", str(tmp_path / "out"))
    runs = {line["id"]: line for line in lines(tmp_path / "out" / "bamboogle" / "seed" / "runs.jsonl")}
    assert len(runs) == 10
    for line in runs.values():
        above = runs[line["parent_run_id"]]["dotted_order"] + "." if line["parent_run_id"] else ""
        assert line["dotted_order"].startswith(above)
        assert line["dotted_order"].endswith(line["id"])
        assert line["start_time"] <= line["end_time"]


def test_an_upload_arrives_once(
    folders: list[str], tmp_path: Path, httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = FakeLangSmith(httpserver)
    monkeypatch.setenv("LANGSMITH_API_KEY", KEY)
    monkeypatch.setenv("LANGSMITH_ENDPOINT", server.url)
    done = run(folders[0], "--out", str(tmp_path / "out"), "--upload")
    assert done.exit_code == 0, done.output
    assert "dataset agentflow-bamboogle: 2 new examples, 0 there before" in done.stdout
    assert "experiment seed-bamboogle: 10 runs, 2 scores" in done.stdout
    [dataset], [session] = server.datasets, server.sessions.values()
    assert session["reference_dataset_id"] == dataset
    assert session["end_time"]
    assert {one["session_name"] for one in server.runs} == {session["name"]}
    assert {one["reference_example_id"] for one in server.runs if "reference_example_id" in one} == {
        *server.examples[dataset]
    }
    assert [(one["key"], one["score"]) for one in server.feedback] == [("correct", 1.0)] * 2
    assert server.keys == {KEY}
    assert KEY not in "".join(path.read_text() for path in (tmp_path / "out").rglob("*.json*"))

    later = run(folders[1], "--out", str(tmp_path / "later"), "--upload")
    assert "0 new examples, 2 there before" in later.stdout
    assert len(server.examples[dataset]) == 2
    again = run(folders[1], "--out", str(tmp_path / "later"), "--upload")
    assert again.exit_code == 1
    assert len(again.stderr.splitlines()) == 1
    assert "already exists" in again.stderr


def test_without_a_key_nothing_is_uploaded(folders: list[str], tmp_path: Path) -> None:
    done = run(folders[0], "--out", str(tmp_path / "out"), "--upload")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "set LANGSMITH_API_KEY" in done.stderr
    assert not (tmp_path / "out").exists()


def test_gated_benchmarks_are_left_out(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", [record(0, benchmark="gpqa"), record(1)])
    done = run(str(folder), "--out", str(tmp_path / "out"))
    assert "gpqa: left out" in done.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["bamboogle"]
    run(str(folder), "--out", str(tmp_path / "out"), "--with-gated")
    assert (tmp_path / "out" / "gpqa" / "examples.jsonl").exists()


def test_names_from_a_file_stay_in_the_folder(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", [record(0, benchmark="../../evil")])
    assert run(str(folder), "--out", str(tmp_path / "deep" / "out")).exit_code == 0
    assert {path.name for path in tmp_path.iterdir()} == {"a", "deep"}
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["out"]
