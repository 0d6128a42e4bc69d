"""A passport has every fact of its evaluation, says what it does not know, and repeats no text of a benchmark."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from agentflow.evals.passport.passport import Passport, passport
from agentflow.evals.record import Provenance, Record, ToolProvenance
from agentflow.evals.runs import read_runs
from agentflow.graph.context import MODULES
from agentflow.graph.run.trace import Tokens
from agentflow.tools.result import ErrorClass
from agentflow.tools.tool_model import RUN, UNKNOWN
from tests.runs import record, turn, write_run

MADE = Provenance(
    at="2026-01-01T00:00:00+00:00",
    call="agentflow eval bamboogle --out runs/a",
    versions={"agentflow": "0.1.0", "langgraph": "1.2.1"},
    prompts={"planner": "aaa", "generator": "bbb"},
    tools={
        "base_generator": ToolProvenance(model=RUN, card="ccc", prompt="ddd"),
        "stock": ToolProvenance(model=UNKNOWN, card="e"),
    },
)
QUESTION = "Which city is the birthplace of the founder of the firm that published Song of Fupoz?"


def made(tmp_path: Path, records: Any = None, **more: Any) -> Passport:
    folder = write_run(tmp_path / "a", [record(n) for n in range(3)] if records is None else records, **more)
    [run] = read_runs([folder])
    return passport(run)


def test_scores_have_their_interval_and_denominator_and_the_traces_belong_to_it(tmp_path: Path) -> None:
    found = made(tmp_path, [record(0), record(1, correct=False), record(2, error="down")], questions=5)
    [score] = found.scores
    assert (score.benchmark, score.accuracy, score.number) == ("bamboogle", 0.2, 5)
    assert score.low < 0.2 < score.high
    assert score.audit.accuracy == score.accuracy
    assert found.traces == hashlib.sha256((tmp_path / "a" / "traces.jsonl").read_bytes()).hexdigest()


def test_models_per_module_and_what_their_servers_call_them(tmp_path: Path) -> None:
    said = record(0)
    said.usage.modules["planner"]["p-2026-01"] = Tokens(calls=1)
    found = made(
        tmp_path,
        [said],
        planner="openai:p",
        sampling={"planner": {"temperature": 0.7, "seed": 3}},
        prompts={"planner": "Plan.\n{tools}"},
        provenance=[MADE],
    )
    assert {"planner", "generator", "tools"} == found.facts.keys() & {*MODULES}
    planner = "openai:p, served as m, p-2026-01, temperature 0.7, seed 3, prompt aaa (set by the run)"
    assert found.facts["planner"] == planner
    assert found.facts["generator"].endswith("prompt bbb")
    assert found.facts["tool stock"] == "card e, unknown"


def searched(tool: str, provider: str = "", error: ErrorClass | None = None) -> list[Record]:
    one = turn(1, tool, error, arguments={"query": "Fupoz"})
    one.result.provider = provider
    return [record(0, turns=[one, turn(2, "python_coder")])]


@pytest.mark.parametrize(
    ("more", "doubt"),
    [
        ({"provenance": []}, "not recorded"),
        ({"provenance": [MADE.model_copy(update={"before": 2})]}, "not recorded: 2"),
        ({"provenance": [MADE, MADE.model_copy(update={"before": 1, "versions": {}})]}, "after try 1"),
        ({"records": searched("google_search", "tavily")}, "google_search"),
        ({"records": searched("web_search")}, "web_search"),
        ({"records": searched("wikipedia_search", "live")}, "wikipedia_search"),
        ({"records": searched("stock")}, "stock"),
        ({"records": searched("wikipedia_search", "atlas")}, ""),
        ({"records": searched("wikipedia_search", "/data/wiki.sqlite")}, ""),
        ({"records": searched("google_search", "tavily"), "search_cache": "replay:a"}, ""),
        ({"records": searched("google_search", "tavily", ErrorClass.TOOL_ERROR)}, ""),
    ],
)
def test_what_stands_against_repeating_it_is_said(more: dict[str, Any], doubt: str, tmp_path: Path) -> None:
    doubts = made(tmp_path, **{"provenance": [MADE], **more}).doubts
    assert len(doubts) == bool(doubt)
    assert all(doubt in said for said in doubts)


def test_a_declared_model_of_a_foreign_tool_is_flagged(tmp_path: Path) -> None:
    oracle = MADE.model_copy(update={"tools": {"oracle": ToolProvenance(model="openai:gpt-4o", card="c")}})
    found = made(tmp_path, searched("oracle"), provenance=[oracle])
    [item] = found.scores[0].audit.items
    assert (item.flags[0].reason, item.flags[0].detail) == ("model behind a tool", "openai:gpt-4o")
    assert found.flagged == 1


def test_no_text_of_a_benchmark_is_in_it(tmp_path: Path) -> None:
    page = "https://huggingface.co/datasets/gaia-benchmark/GAIA?q=SECRET"
    texts = dict.fromkeys(("sub_goal", "context", "plan"), "SECRET")
    query, output = {"query": f"{QUESTION} SECRET"}, f"{page}\n{QUESTION} SECRET: Bukazo"
    said = turn(1, "google_search", arguments=query, output=output, **texts)
    one = record(0, benchmark="gaia", question=f"{QUESTION} SECRET", gold="Bukazo", answer="SECRET", turns=[said])
    broken = record(1, benchmark="gaia", question="SECRET", error="SECRET")
    found = made(tmp_path, [one, broken])
    assert [flag.reason.name for flag in found.scores[0].audit.items[0].flags] == ["QUESTION", "PAGE", "ANSWER"]
    assert [word for word in ("SECRET", "Fupoz", "Bukazo") if word in found.model_dump_json()] == []
