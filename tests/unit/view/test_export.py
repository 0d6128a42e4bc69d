"""Reports as files: small, whole, closed to the network, and silent about gated benchmarks."""

import base64
import hashlib
import random
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from agentflow.evals.record import Record
from agentflow.evals.runs import read_runs
from agentflow.graph.agent import build_graph
from agentflow.graph.context import Context
from agentflow.graph.run.runner import run
from agentflow.graph.run.task import Task
from agentflow.rl.run.training_log import TrainingLog
from agentflow.tools.result import ErrorClass
from agentflow.view.export import BYTES, Export, evaluations, training
from tests.reports import Report
from tests.runs import record, turn, write_run
from tests.scripted import Script
from tests.trainings import begin, credited, rollout, token_step, write_step, write_validation

HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=alert(1)>"


def exported(folder: Path, records: Iterable[Record], limit: int = BYTES, **more: Any) -> Export:
    return evaluations(read_runs([write_run(folder / "a", list(records), **more)]), limit=limit)


def test_every_trace_is_there_with_its_turns(tmp_path: Path) -> None:
    turns = [turn(1, "", ErrorClass.BAD_PLAN, plan="Well,"), turn(2, output="42", arguments={"a": "ü"})]
    made = exported(tmp_path, (record(n, turns=turns, sample=at) for at in range(2) for n in range(150)), epochs=2)
    assert (made.traces, made.with_text, made.gated) == (300, 300, 0)
    report = Report(made.html)
    assert [row["sample"] for row in report.rows] == [0] * 150 + [1] * 150
    assert list(report.texts)[:4] == [0, 150, 1, 151], "the tries of a question are together"
    found = report.texts[1]
    assert (found["question"], found["gold"], found["decided_by"]) == ("Question 1?", "the gold", "exact match")
    trace = found["trace"]
    assert (trace["answer"], trace["analysis"]) == ("the answer", "the analysis")
    assert (trace["turns"][0]["result"]["error"], trace["turns"][0]["plan"]) == ("bad_plan", "Well,")
    assert (trace["turns"][1]["arguments"], trace["turns"][1]["result"]["output"]) == ({"a": "ü"}, "42")
    assert [role for role, _ in found["memory"]] == ["user", "planner", "user", "planner", "user"]


async def test_memory_is_what_the_planner_was_asked_with(tmp_path: Path, scripted: Script) -> None:
    """The report's words against the planner's own prompt, over turns that fail and turns that work."""
    readable = "**Sub-Goal:** s\nTool: base_generator\nContext: c"
    script = scripted(
        analyst="Analysis: two steps",
        planner=["no step", "Sub-Goal: ask\nTool: nothing\nContext: c", readable, readable],
        executor='{"query": "q"}',
        verifier=[*(f"Analysis: {word}\nVerdict: continue" for word in "abc"), "Analysis: d\nVerdict: stop"],
    )
    trace = await run(build_graph(), Task.from_question("How so?"), Context(model=script.spec, max_turns=5))
    made = exported(tmp_path, [record(0).model_copy(update=trace.own_fields)], max_turns=5)
    [told] = Report(made.html).texts.values()
    asked = [message.text for message in script.asked("planner")[-1][1:]]
    assert len(asked) == 7
    assert [text for _, text in told["memory"]][:7] == asked


def test_the_policy_names_its_own_script_and_style_only(tmp_path: Path) -> None:
    html = exported(tmp_path, [record(0)]).html
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert "http" not in policy
    for kind, (text,) in (("script", re.findall(r"<script>(.*?)</script>", html, re.DOTALL)),
                          ("style", re.findall(r"<style>(.*?)</style>", html, re.DOTALL))):  # fmt: skip
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert re.findall(r"""(?:src|href)=["'](?!#|data:)[^"']*""", html) == []


def test_hostile_text_and_names_stay_data(tmp_path: Path) -> None:
    said = record(0, question=HOSTILE, answer=HOSTILE, family=HOSTILE, turns=[turn(output=HOSTILE, tool=HOSTILE)])
    html = exported(tmp_path, [said], planner=f"openai:{HOSTILE}").html
    assert "<img src=x" not in html
    assert html.count("</script>") == html.count("<script")
    assert Report(html).texts[0]["question"] == HOSTILE


def test_long_texts_are_cut_where_one_sees_it_and_half_a_surrogate_pair_stops_nothing(tmp_path: Path) -> None:
    runs = read_runs([write_run(tmp_path / "a", [record(0, turns=[turn(output="x" * 5000)])])])
    runs[0].records[0].answer = "\ud800"
    trace = Report(evaluations(runs).html).texts[0]["trace"]
    output = trace["turns"][0]["result"]["output"]
    assert (trace["answer"], output.count("x"), "1,000" in output) == ("?", 4000, True)


@pytest.mark.parametrize("benchmark", ["gpqa", "gaia"])
def test_gated_benchmarks_keep_only_their_rows(benchmark: str, tmp_path: Path) -> None:
    secret = "SECRET"
    said = turn(sub_goal=secret, context=secret, arguments={"query": secret}, output=secret, plan=secret)
    invented = turn(2, secret, ErrorClass.UNKNOWN_TOOL)
    gated = record(0, benchmark=benchmark, question=secret, gold=secret, answer=secret, turns=[said, invented])
    runs = read_runs([write_run(tmp_path / "a", [gated, record(1)])])
    made = evaluations(runs)
    assert (made.traces, made.with_text, made.gated) == (2, 1, 1)
    assert secret not in Report(made.html).everything
    assert len(Report(made.html).rows) == 2
    assert secret in Report(evaluations(runs, with_gated=True).html).everything


def test_beyond_its_size_a_file_keeps_rows(tmp_path: Path) -> None:
    noise = random.Random(0)
    records = [record(n, turns=[turn(output=noise.randbytes(900).hex())]) for n in range(1000)]
    made = exported(tmp_path, records, limit=700_000)
    assert len(made.html) < 700_000
    assert 0 < made.with_text < 1000
    report = Report(made.html)
    assert (len(report.texts), len(report.rows)) == (made.with_text, 1000)


def test_flagged_traces_are_named(tmp_path: Path) -> None:
    question = "Which city is the birthplace of the founder of the firm that published Song of Fupoz?"
    asked = [turn(1, "google_search", arguments={"query": question})]
    records = [record(0, turns=[turn(1)]), record(1, question=question, turns=asked)]
    report = Report(exported(tmp_path, records).html)
    [[audit]] = report.file["report"]["audits"]
    assert audit["reasons"] == {"question as query": 1}
    assert [item["trace"] for item in audit["items"]] == ["1"]
    assert report.texts[1]["flags"] == ["turn 1, google_search: question as query"]
    assert report.texts[0]["flags"] == []


def test_a_training_has_its_validations_and_the_groups_of_its_last_step_with_tokens(tmp_path: Path) -> None:
    out = begin(tmp_path / "training", 3)
    for step in (0, 2):
        write_validation(out, step, [rollout(step, "test", task, float(step > 0)) for task in ("a", "b")])
    for step in (1, 2, 3):
        rollouts = [rollout(step, "train", "c", reward, id=f"r{reward}", question=HOSTILE) for reward in (1.0, 0.0)]
        write_step(out, step, credited(rollouts))
        if step < 3:
            TrainingLog(out).tokens(token_step(step, "c", rollouts, hostile=HOSTILE))
    made = training(out)
    report = Report(made.html)
    assert made.html.count("</script>") == made.html.count("<script")
    assert HOSTILE in [text["question"] for text in report.texts.values()]
    assert (made.traces, made.with_text) == (6, 6)
    ids = ["0-test-0", "0-test-1", "2-test-0", "2-test-1", "2-train-0", "2-train-1"]
    assert [row["id"] for row in report.rows] == ids
    page = report.file["sources"]["0"]
    assert (page["train_steps"], page["test_steps"], page["live"]) == ([2], [0, 2], False)
    assert page["matrix"]["rows"][0]["shares"] == [0.0, 1.0]
    assert [len(group["trajectories"]) for group in report.file["steps"]["2"]["groups"]] == [2]
    assert [len(found["trajectories"]) for found in report.file["tokens"].values()] == [2]
    assert str(tmp_path) not in report.everything
