"""The page as a file: small, whole, closed to the network, and silent about gated benchmarks."""

import base64
import gc
import gzip
import hashlib
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from agentflow.evals.report.page import PAGE_BYTES, page
from agentflow.evals.results_store import ResultsError
from agentflow.evals.runs import read_runs
from agentflow.tools.result import ErrorClass
from benchmarks.report import evaluation
from tests.runs import record, turn, write_run

HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=alert(1)>"


def script(html: str, attributes: str) -> list[str]:
    return re.findall(rf"<script [^>]*{attributes}[^>]*>(.*?)</script>", html, re.DOTALL)


def unpacked(packed: str) -> str:
    return gzip.decompress(base64.b64decode(packed)).decode()


def rows(html: str) -> dict[str, Any]:
    [packed] = script(html, 'id="rows"')
    return dict(json.loads(unpacked(packed)))


def texts(html: str) -> list[list[Any]]:
    lines = [line for part in script(html, 'class="part"') for line in unpacked(part).split("\n")]
    return [list(json.loads(line)) for line in lines]


def everything(html: str) -> str:
    return html + json.dumps(rows(html)) + json.dumps(texts(html))


def test_every_trace_is_there_with_its_turns(tmp_path: Path) -> None:
    turns = [turn(1, "", ErrorClass.BAD_PLAN, plan="Well,"), turn(2, output="42", arguments={"a": "ü"})]
    records = [record(n, turns=turns, sample=sample) for sample in range(2) for n in range(150)]
    made = page(read_runs([write_run(tmp_path / "a", records, epochs=2)]))
    assert (made.traces, made.with_text, made.gated) == (300, 300, 0)
    columns = rows(made.html)["columns"]
    assert columns["sample"] == [0, 1] * 150, "the tries of a question are together"
    found = texts(made.html)
    assert [line[0] for line in found] == list(range(300))
    _, question, gold, answer, analysis, error, decider, _, said = found[2]
    assert (question, gold, answer, analysis) == ("Question 1?", "the gold", "the answer", "the analysis")
    assert (error, decider) == ("", "exact match")
    assert said[0][5:] == ["bad_plan", 0.0, "the verdict", "stop", "Well,"]
    assert said[1] == [
        "the sub-goal",
        "the context",
        "python_coder",
        '{"a": "ü"}',
        "42",
        None,
        0.0,
        "the verdict",
        "stop",
        "",
    ]


def test_the_policy_names_its_own_script_and_style_only(tmp_path: Path) -> None:
    html = page(read_runs([write_run(tmp_path / "a", [record(0)])])).html
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert "http" not in policy
    for kind, (text,) in (("script", re.findall(r"<script>(.*?)</script>", html, re.DOTALL)),
                          ("style", re.findall(r"<style>(.*?)</style>", html, re.DOTALL))):  # fmt: skip
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy


def test_hostile_text_and_names_stay_data(tmp_path: Path) -> None:
    said = record(0, question=HOSTILE, answer=HOSTILE, family=HOSTILE, turns=[turn(output=HOSTILE, tool=HOSTILE)])
    html = page(read_runs([write_run(tmp_path / "a", [said], planner=f"openai:{HOSTILE}")])).html
    assert "<img" not in html
    assert html.count("</script>") == html.count("<script")
    assert texts(html)[0][1] == HOSTILE


def test_half_a_surrogate_pair_does_not_stop_the_report(tmp_path: Path) -> None:
    runs = read_runs([write_run(tmp_path / "a", [record(0)])])
    runs[0].records[0].answer = "\ud800"
    assert texts(page(runs).html)[0][3] == "?"


@pytest.mark.parametrize("benchmark", ["gpqa", "gaia"])
def test_gated_benchmarks_keep_only_their_rows(benchmark: str, tmp_path: Path) -> None:
    secret = "SECRET"
    said = turn(sub_goal=secret, context=secret, arguments={"query": secret}, output=secret, plan=secret)
    gated = record(0, benchmark=benchmark, question=secret, gold=secret, answer=secret, turns=[said])
    runs = read_runs([write_run(tmp_path / "a", [gated, record(1)])])
    made = page(runs)
    assert (made.traces, made.with_text, made.gated) == (2, 1, 1)
    assert secret not in everything(made.html)
    assert len(rows(made.html)["columns"]["run"]) == 2
    assert secret in everything(page(runs, with_gated=True).html)


def test_beyond_its_size_a_page_keeps_rows_and_says_so(tmp_path: Path) -> None:
    noise = random.Random(0)
    records = [record(n, turns=[turn(output=noise.randbytes(900).hex())]) for n in range(1000)]
    runs = read_runs([write_run(tmp_path / "a", records)])
    made = page(runs, limit=600_000)
    assert len(made.html) < 600_000
    assert 0 < made.with_text < 1000
    assert len(texts(made.html)) == made.with_text
    assert len(rows(made.html)["columns"]["run"]) == 1000
    [kept] = script(made.html, 'id="kept"')
    assert json.loads(kept)["shown"] == made.with_text


def test_long_texts_are_cut_where_one_sees_it(tmp_path: Path) -> None:
    made = page(read_runs([write_run(tmp_path / "a", [record(0, turns=[turn(output="x" * 5000)])])]))
    assert texts(made.html)[0][8][0][4].endswith("x [... 1,000 characters cut ...]")


def test_runs_are_compared_on_their_common_questions(tmp_path: Path) -> None:
    first = write_run(tmp_path / "a", [record(n, correct=n < 20) for n in range(60)])
    second = write_run(tmp_path / "b", [record(n, correct=n < 40) for n in range(60)])
    other = write_run(tmp_path / "c", [record(n, benchmark="aime24") for n in range(3)])
    [summary] = script(page(read_runs([first, second, other])).html, 'id="summary"')
    [difference] = json.loads(summary)["differences"]
    assert difference["verdict"].startswith("b is better than a")
    assert (difference["questions"], difference["shown"]) == (60, True)


def test_the_passport_is_there_and_flagged_traces_are_marked(tmp_path: Path) -> None:
    question = "Which city is the birthplace of the founder of the firm that published Song of Fupoz?"
    asked = [turn(1, "google_search", arguments={"query": question})]
    records = [record(0, question=question, turns=asked), record(1, turns=[turn(1)])]
    html = page(read_runs([write_run(tmp_path / "a", records)])).html
    [summary] = script(html, 'id="summary"')
    [passport] = json.loads(summary)["passports"]
    assert passport["traces"] == hashlib.sha256((tmp_path / "a" / "traces.jsonl").read_bytes()).hexdigest()
    assert passport["scores"][0]["audit"]["reasons"] == {"question as query": 1}
    assert "items" not in passport["scores"][0]["audit"]
    found = rows(html)
    assert (found["columns"]["flags"], found["names"]["flag"]) == ([[0], []], ["question as query"])
    assert (found["columns"]["why"], found["names"]["why"]) == (
        [[0], []],
        ["turn 1, google_search: question as query"],
    )


@pytest.mark.slow
def test_thirty_thousand_traces_make_a_page_below_five_megabytes(tmp_path: Path) -> None:
    """Below the limit with the texts of a third of them at least; `python -m benchmarks.report` has the time."""
    made = page(read_runs([evaluation(tmp_path / "a", 30_000)]))
    assert len(made.html.encode()) < PAGE_BYTES
    assert made.traces == 30_000
    assert made.with_text > 10_000


@pytest.mark.parametrize("enabled", [True, False])
def test_reading_and_making_leave_the_collector_as_it_was(tmp_path: Path, enabled: bool) -> None:
    folder, before = write_run(tmp_path / "a", [record(0)]), gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        page(read_runs([folder]))
        assert gc.isenabled() is enabled
        (folder / "traces.jsonl").write_text("no trace\n")
        with pytest.raises(ResultsError):
            read_runs([folder])
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()
