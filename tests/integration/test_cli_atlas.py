"""The installed command in a process of its own: real graph, real tools, real signals."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from agentflow.evals.atlas.families import questions
from agentflow.evals.scorers.exact import correct
from tests.fake_openai import FakeOpenAI, Fault
from tests.waiting import LAST_RESORT, until

COMMAND = [sys.executable, "-m", "agentflow"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=LAST_RESORT, check=False)


def test_solve_answers_over_several_turns_with_real_tools(tmp_path: Path) -> None:
    task = next(task for task in questions("test", 24) if task.family == "years")
    trace = tmp_path / "trace.jsonl"
    done = run("solve", task.question, "--model", "atlas-oracle", "--corpus", "atlas", "--json", "--trace", str(trace))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    printed = json.loads(done.stdout)
    assert correct(printed["answer"], task.answer, task.numbers, task.target)
    assert [turn["tool"] for turn in printed["turns"]] == ["wikipedia_search", "wikipedia_search", "python_coder"]
    assert json.loads(trace.read_text()) == printed


def module(body: dict[str, Any]) -> str:
    """Plays every module."""
    replies = {
        "You are the planner": "Sub-Goal: Say it\nTool: base_generator\nContext: x",
        "You carry out": '{"query": "x"}',
        "You check": "Verdict: stop",
    }
    system = body["messages"][0]["content"]
    return next((reply for start, reply in replies.items() if system.startswith(start)), "Answer: x")


def test_an_evaluation_that_was_killed_is_taken_up(tmp_path: Path) -> None:
    """kill -9 in the middle, a torn last line, and the same call again: each item once, none done twice."""
    path = tmp_path / "traces.jsonl"
    killed = threading.Event()

    def held_in_the_third_question(body: dict[str, Any]) -> str:
        if len(server.requests) > 2 * 6:
            killed.wait(LAST_RESORT)
        return module(body)

    with FakeOpenAI(held_in_the_third_question) as server:
        spec = f"openai-compatible:fake@{server.base_url}"
        call = ["eval", "atlas", "--model", spec, "--limit", "8", "--concurrency", "1", "--out", str(tmp_path)]
        with subprocess.Popen([*COMMAND, *call], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            until(lambda: path.exists() and path.read_bytes().count(b"\n") >= 2)
            process.kill()
        killed.set()
        before = path.read_text().splitlines()
        assert len(before) == 2
        with path.open("a") as file:
            file.write('{"id": "torn')
        server.requests.clear()
        done = run(*call)
    assert done.returncode == 0, done.stderr
    assert "n = 8" in done.stdout
    assert len(server.requests) == 6 * (8 - len(before))
    records = path.read_text().splitlines()
    assert records[: len(before)] == before
    assert sorted(json.loads(record)["task"]["question"] for record in records) == sorted(
        task.question for task in questions("test", 8)
    )


def test_an_interruption_ends_the_run_with_one_line() -> None:
    """Starting and ending Python takes seconds of a core, and much longer beside other work."""
    with FakeOpenAI(lambda _: Fault.HANG) as server:
        call = ["solve", "q", "--model", f"openai-compatible:fake@{server.base_url}"]
        process = subprocess.Popen([*COMMAND, *call], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        until(lambda: server.requests)
        os.kill(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=LAST_RESORT)
    assert process.returncode == 130
    assert errors == "interrupted\n"
