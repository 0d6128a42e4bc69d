"""`agentflow eval report` and `compare`, and what `agentflow eval` says of flagged tries."""

import json
from pathlib import Path

import pytest
from typer.testing import Result

from agentflow.cli.group import MISUSED
from agentflow.evals.atlas.families import questions
from agentflow.evals.results_store import read
from agentflow.evals.scorers.score import Decision
from agentflow.graph.context import Context
from agentflow.graph.run.trace import Tokens, Usage
from agentflow.graph.state import State
from tests.command_line import call, succeeds
from tests.fake_openai import FakeOpenAI, completion
from tests.runs import record, write_run
from tests.scripted import CONTINUE, STOP, Reply, Scripted
from tests.unit.graph.test_confidence import calibration

CALIBRATION = calibration(familiar=0)


def run(*arguments: object) -> Result:
    return succeeds("eval", *arguments)


def searching(monkeypatch: pytest.MonkeyPatch, query: str, verifier: Reply = STOP) -> None:
    """Every run looks up `query` in the encyclopedia, once."""
    plan = "Sub-Goal: Look it up\nTool: wikipedia_search\nContext: it"
    Scripted(planner=plan, executor=json.dumps({"query": query}), verifier=verifier).install(monkeypatch)


def test_an_evaluation_leaves_what_it_was_made_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    searching(monkeypatch, "Fupoz")
    out = tmp_path / "a b"
    done = run("atlas", "--limit", 2, "--out", out)
    assert "flagged" not in done.output
    assert f"agentflow view '{out}'" in done.stderr
    [made] = read(out)[0].provenance
    assert made.call == f"agentflow eval atlas --limit 2 --out '{out}'"
    assert made.before == 0


def test_what_the_embedded_model_cannot_do_is_said_first(monkeypatch: pytest.MonkeyPatch) -> None:
    searching(monkeypatch, "Fupoz")
    assert [
        "hint: the embedded model knows only Atlas" in run(name, "--limit", 1).stderr for name in ("game24", "atlas")
    ] == [True, False]


def test_flagged_tries_are_said_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = questions("test", 1)[0]
    searching(monkeypatch, asked.question)
    done = run("atlas", "--limit", 2, "--out", tmp_path)
    assert "note: 1 of 2 tries are flagged (question as query 1); agentflow eval report" in done.stderr


def test_runs_that_ended_early_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(_: object) -> str:
        monkeypatch.setattr(State, "seconds_left", lambda _: 0.0)
        return CONTINUE

    searching(monkeypatch, "Fupoz", verifier=CONTINUE)
    done = run("atlas", "--limit", 2, "--context", "max_turns=1")
    assert ("out of turns 2" in done.stdout, "max_seconds" in done.output) == (True, False)
    searching(monkeypatch, "Fupoz", verifier=late)
    done = run("atlas", "--limit", 2, "--context", "max_seconds=200")
    assert "out of time 2" in done.stdout
    assert "note: 2 runs reached max_seconds=200; allow more" in done.stderr


def test_replies_that_were_cut_off_are_counted() -> None:
    """Also that of an agent which answers without a turn."""
    with FakeOpenAI(lambda _: (200, completion("m", "It is", "length"))) as server:
        model = ("--model", f"openai-compatible:m@{server.base_url}")
        for agent in ("direct", "react"):
            found = json.loads(run("atlas", "--limit", 2, "--agent", agent, *model, "--json").stdout)["atlas"]
            assert found["cut_off"]["planner"] >= 2, agent
        assert "planner 2 (at max_tokens)" in run("atlas", "--limit", 2, "--agent", "direct", *model).stdout


def test_another_program_that_goes_on_is_said_and_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    searching(monkeypatch, "Fupoz")
    asked = ("atlas", "--out", tmp_path, "--limit")
    run(*asked, 1)
    path = tmp_path / "settings.json"
    path.write_text(path.read_text().replace('"langgraph": "', '"langgraph": "0.'))
    assert "note: another" not in run(*asked, 1).stderr, "nothing was left to run"
    done = run(*asked, 2)
    assert "note: another version began this evaluation; its settings.json lists both: langgraph " in done.stderr
    made = read(tmp_path)[0].provenance
    assert [one.before for one in made] == [0, 1]


def test_a_limit_of_dollars_names_the_models_that_have_no_price(tmp_path: Path) -> None:
    asked = ("atlas", "--limit", 2, "--max-cost", 1, "--out", tmp_path / "a")
    done = run(*asked)
    lines = [line for line in done.stderr.splitlines() if "--max-cost" in line]
    models = {model for one in read(tmp_path / "a")[1] for model in one.usage.models}
    assert len(lines) == len(models)
    prices = [word for model in models for word in ("--price", f"{model}=1/1")]
    assert "--max-cost" not in run(*asked[:-1], tmp_path / "b", *prices).stderr
    run(*asked, *prices)  # a price may be given later


# Reports and comparisons


def test_a_report_says_what_it_wrote_or_why_it_cannot(tmp_path: Path) -> None:
    first = write_run(tmp_path / "seed", [record(n, correct=n < 20) for n in range(60)])
    second = write_run(tmp_path / "trained", [record(n, correct=n < 40) for n in range(50)], planner="openai:p")
    done = run("report", first, second, "--out", tmp_path / "r.html")
    assert "110 traces of 2 evaluations" in " ".join(done.stdout.split())
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
    done = call("eval", "report", first, second, "--out", tmp_path / "nowhere" / "r.html")
    assert (done.exit_code, len(done.stderr.splitlines())) == (1, 1)


def test_a_comparison_shows_the_tokens_of_a_right_answer_to_common_questions(tmp_path: Path) -> None:
    folders = []
    for name, asked, right, tokens in (("seed", 60, 5, 100), ("trained", 50, 10, 400)):
        records = [record(n, correct=n < right) for n in range(asked)]
        for one in records:
            one.usage = Usage(modules={"planner": {"m": Tokens(total_tokens=tokens)}})
        folders.append(write_run(tmp_path / name, records))
    assert "tokens per right answer: 1,000 (seed), 2,000 (trained)" in run("compare", *folders).stdout


def test_a_comparison_says_what_counts_as_wrong_without_an_answer(tmp_path: Path) -> None:
    lost = [record(0, error="no server"), record(1, error="no server"), record(2, decision=Decision.UNDECIDED)]
    folders = [write_run(tmp_path / "seed", map(record, range(6))), write_run(tmp_path / "trained", [*lost, record(3)])]
    said = run("compare", *folders).stderr
    assert "note: bamboogle: of 4 tries of trained, 2 failed and 1 undecided count as wrong" in said
    assert "tries of seed" not in said


def test_a_comparison_without_a_common_question_names_the_benchmarks(tmp_path: Path) -> None:
    """A file that was renamed is another benchmark, though its questions are the same."""
    folders = [write_run(tmp_path / name, [record(0, benchmark=f"{name}.jsonl")]) for name in ("old", "new")]
    done = call("eval", "compare", *folders)
    assert done.exit_code == MISUSED
    assert "no question in common: old of old.jsonl and new of new.jsonl;" in done.stderr


def test_a_comparison_of_several_tries_shows_pass_at_k(tmp_path: Path) -> None:
    tries = [(question, sample) for question in range(4) for sample in range(2)]
    folders = [
        write_run(tmp_path / name, [record(n, sample=k, correct=n < right and k == 0) for n, k in tries], epochs=2)
        for name, right in (("seed", 1), ("trained", 3))
    ]
    done = run("compare", *folders)
    assert "@2 25.0" in done.stdout


def test_a_report_shows_how_confidence_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    searching(monkeypatch, "Fupoz")
    done = run("atlas", "--limit", 2, "--report", "--json")
    assert json.loads(done.stdout)["atlas"]["reliability"] is None
    assert "agentflow calibrate" in done.stderr
    monkeypatch.setattr(Context, "calibrated", lambda self: CALIBRATION)
    found = json.loads(run("atlas", "--limit", 2, "--report", "--json").stdout)["atlas"]["reliability"]
    assert (found["number"], found["bins"][0]["right"], found["covered"][0]["tokens"]) == (2, 0, None)
    assert "AUC 0.500" in run("atlas", "--limit", 2, "--report").stdout


def test_withheld_answers_are_counted_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    searching(monkeypatch, "Fupoz")
    monkeypatch.setattr(Context, "calibrated", lambda self: calibration(familiar=0, thresholds=[0.5]))
    asked = ("atlas", "--limit", 2, "--report", "--context", "abstain=0.9")
    found = json.loads(run(*asked, "--json").stdout)["atlas"]
    assert (found["ended"], found["correct"], found["reliability"]) == ({"abstained": 2}, 0, None)
    assert "0 of 2; the others" in run(*asked).stdout
