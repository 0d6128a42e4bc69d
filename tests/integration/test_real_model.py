"""AgentFlow with a real small model, Qwen2.5-Coder-0.5B-Instruct on llama.cpp: what it writes, and that no rule breaks.

The model is weak, so the tests ask whether its replies can be used, and not whether its answers are right.
"""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentflow.graph.context import Sampling
from agentflow.graph.models.loading import aload_model, complete
from agentflow.graph.state import Action, Plan, Turn, Verdict
from agentflow.nodes import answer_text, generator
from agentflow.nodes.planner import DESCRIPTIONS, EXAMPLES
from agentflow.tools.result import ToolResult
from benchmarks.real import llamacpp
from tests.command_line import call, succeeds

pytestmark = pytest.mark.slow

QUESTIONS = Path(__file__).parents[2] / "benchmarks" / "real" / "dev.jsonl"
ASKED = 8
DESCRIBED = [text for texts in DESCRIPTIONS.values() for text in texts]
OURS = ("Turns left", "Sub-Goal:", "Verifier:", "Verdict:", "Context:", "Input:", *DESCRIBED, *EXAMPLES)
"""Texts of our prompts that have no place in the call of a tool."""


@pytest.fixture(scope="module")
def spec() -> Iterator[str]:
    if lacks := llamacpp.lacking():
        pytest.skip(f"no real model was exercised: {lacks}")
    try:
        llamacpp.fetched("0.5b")
    except subprocess.CalledProcessError:
        pytest.skip("no real model was exercised: it could not be fetched")
    with llamacpp.serving("0.5b") as served:
        yield served


@pytest.fixture(scope="module")
def traces(spec: str, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    out = tmp_path_factory.mktemp("real") / "run"
    command = ["eval", str(QUESTIONS), "--limit", str(ASKED), "--model", spec, "--out", str(out), "--concurrency", "4"]
    settings = ["--tools", "base_generator,python_coder", "--max-turns", "4", "--context", "max_tokens=300"]
    succeeds(*command, *settings, "--context", "max_seconds=100000")
    return [json.loads(line) for line in (out / "traces.jsonl").read_text(encoding="utf-8").splitlines()]


def test_its_replies_can_be_read(traces: list[dict[str, Any]]) -> None:
    turns = [turn for trace in traces for turn in trace["turns"]]
    assert len(traces) == ASKED
    for unreadable in (
        [turn for turn in turns if turn["result"]["error"] in ("bad_plan", "unknown_tool")],
        [turn for turn in turns if turn["result"]["error"] == "bad_arguments"],
        [turn for turn in turns if "could not be read" in turn["verdict"]["analysis"]],
    ):
        assert len(unreadable) * 10 <= len(turns)


def test_no_text_of_ours_is_in_a_call(traces: list[dict[str, Any]]) -> None:
    calls = [json.dumps(turn["arguments"]) for trace in traces for turn in trace["turns"]]
    assert not [(text, call) for text in OURS for call in calls if text in call]


def test_no_run_stops_on_a_failure(traces: list[dict[str, Any]]) -> None:
    answered = [trace["turns"] for trace in traces if trace["status"] == "answered"]
    assert answered
    assert all(any(turn["result"]["status"] == "ok" for turn in turns) for turns in answered)


def test_it_answers_a_question(spec: str) -> None:
    settings = ["--tools", "python_coder", "--context", "max_tokens=300", "--context", "max_seconds=100000", "--json"]
    found = json.loads(succeeds("solve", "What is 47 times 86?", "--model", spec, *settings).stdout)
    assert "4042" in found["answer"].replace(",", "")
    assert found["turns"][-1]["result"]["output"] == "4042"


async def test_an_answer_is_what_a_program_found(spec: str) -> None:
    """Four of five at least: all 17, of which 7 were right where the question stood after the result."""
    rows = [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]
    numbers = {row["question"]: str(row["answer"]) for row in rows if isinstance(row["answer"], int | float)}
    model, four_at_a_time = await aload_model(spec, Sampling(temperature=0, max_tokens=200)), asyncio.Semaphore(4)

    async def repeats(question: str, found: str) -> bool:
        plan = Plan(sub_goal="Compute it.", tool="python_coder")
        action = Action(arguments={"code": ""}, result=ToolResult(status="ok", output=found))
        turn = Turn(turn=1, plan=plan, action=action, verdict=Verdict(analysis="", signal="stop"))
        async with four_at_a_time:
            reply = await complete(model, generator.messages(question, [turn], generator.LEAN, "lean"))
        return found in answer_text.parse(reply).replace(",", "")

    kept = await asyncio.gather(*(repeats(*asked) for asked in numbers.items()))
    assert sum(kept) * 5 >= len(kept) * 4


def test_doctor_tells_what_the_server_can(spec: str) -> None:
    done = call("doctor", "--model", spec)
    lines = {line.split("  ")[0].strip(): line for line in done.stdout.splitlines() if "  " in line}
    assert f"{llamacpp.TOKENS:,} tokens" in lines["context length"]
    assert "returns none" not in lines["log-probabilities"]
