"""An evaluation that is killed three times by SIGKILL has the results of an undisturbed one."""

import hashlib
import json
import math
import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from tests.command_line import succeeds
from tests.fake_openai import FakeOpenAI, Reply
from tests.waiting import LAST_RESORT, until

ITEMS, CONCURRENCY = 160, 32

Result = dict[str, tuple[object, ...]]


def reply(body: dict[str, Any]) -> Reply:
    """By question: a correct answer, a wrong one, none, or an error that is not retried."""
    question = body["messages"][-1]["content"].removeprefix("Question: ")
    kind = hashlib.sha256(question.encode()).digest()[0] % 4
    number = question.split()[-1].strip("?")
    return (f"Answer: {number}", "Answer: Rome", "Answer:", (400, {"error": {"message": "no"}}))[kind]


def call(rows: Path, server: FakeOpenAI, out: Path) -> list[str]:
    command = ["eval", "bamboogle", "--file", str(rows), "--agent", "direct"]
    command += ["--model", f"vllm:any@{server.base_url}", "--concurrency", str(CONCURRENCY), "--out", str(out)]
    return command


def lines(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "traces.jsonl").read_text().splitlines()]


def ended(out: Path) -> int:
    path = out / "traces.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def result(out: Path) -> Result:
    """Return the records by id, without fields that depend on the clock."""
    records = lines(out)
    found: Result = {}
    for record in records:
        counted = {name: value for name, value in record["usage"].items() if name != "seconds"}
        same = [record.get(name) for name in ("answer", "status", "error", "decision", "decided_by")]
        found[record["task"]["id"]] = (record["task"], *same, json.dumps(counted))
    assert len(found) == len(records), "no item is there twice"
    return found


def test_what_was_killed_three_times_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    rows, out = tmp_path / "rows.jsonl", tmp_path / "killed"
    rows.write_text("".join(json.dumps({"question": f"Which is {n}?", "answer": str(n)}) + "\n" for n in range(ITEMS)))
    hold_at, killed = math.inf, threading.Event()

    def held(body: dict[str, Any]) -> Reply:
        """By what has ended and not by what was asked: a request of a killed run may come in after its end."""
        if ended(out) >= hold_at:
            killed.wait(LAST_RESORT)
        return reply(body)

    with FakeOpenAI(held) as server:
        whole = succeeds(*call(rows, server, tmp_path / "whole")).stdout
        for enough in sorted(random.sample(range(10, 100), 3)):
            killed.clear()
            hold_at = enough
            command = [sys.executable, "-m", "agentflow", *call(rows, server, out)]
            with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
                until(lambda least=enough: ended(out) >= least or run.poll() is not None)
                assert run.poll() is None
                run.kill()
            hold_at = math.inf
            killed.set()
            assert enough <= ended(out) < ITEMS
        resumed = succeeds(*call(rows, server, out)).stdout
        asked = len(server.requests)
        assert succeeds(*call(rows, server, out)).stdout == resumed
        assert len(server.requests) == asked, "the same call again asks nothing"
    assert result(out) == result(tmp_path / "whole")
    assert len(result(out)) == ITEMS
    assert {record["decision"] for record in lines(out)} == {"correct", "incorrect", "undecided"}
    assert _without_seconds(resumed) == _without_seconds(whole)


def _without_seconds(shown: str) -> list[str]:
    return [line for line in shown.splitlines() if not line.startswith("seconds")]
