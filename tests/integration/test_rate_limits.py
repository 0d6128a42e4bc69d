"""An evaluation over a server that allows a number of requests in a window of time loses no question."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentflow.evals.results_store import read
from agentflow.graph.models import pace
from tests.command_line import succeeds
from tests.fake_openai import FakeOpenAI, Reply

QUESTIONS, ALLOWED, WINDOW = 24, 20, 0.3

Refusal = Callable[[float], Reply]
"""Makes the refusal of a server from the seconds until its next window; test_rate_limits has more ways to say them."""


def refusal(message: str = "slow down", status: int = 429, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return status, {"error": {"message": message, "code": status}}, named


REFUSALS: dict[str, Refusal] = {
    "number": lambda left: refusal(Retry_After=f"{left:.3f}"),
    "body": lambda left: refusal(f"Rate limit reached. Please try again in {left:.3f}s."),
    "nothing": lambda left: refusal(),
    "overloaded": lambda left: refusal(status=503, Retry_After=f"{left:.3f}"),
    "within 200": lambda left: (200, {"error": {"code": 429, "message": "Provider returned error"}}, {}),
}


class Window:
    """The script of a server that answers a number of requests, then none until its window ends."""

    def __init__(self, refuse: Refusal) -> None:
        self.refuse, self.refused = refuse, 0
        self._left, self._ends = ALLOWED, 0.0
        self._lock = threading.Lock()

    def __call__(self, _: dict[str, Any]) -> Reply:
        with self._lock:
            now = time.monotonic()
            if self._left == 0 and now >= self._ends > 0:
                self._left, self._ends = ALLOWED, 0.0
            if self._left:
                self._left -= 1
                return "Answer: 4"
            self._ends = self._ends or now + WINDOW  # the window is as long as the machine is slow
            self.refused += 1
            return self.refuse(self._ends - now)


@pytest.mark.parametrize("form", REFUSALS)
def test_no_question_is_lost_to_a_rate_limit(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "FIRST", WINDOW / 4)
    monkeypatch.setattr(pace.PACE, "waited", 0.0)
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(f'{{"question": "What is {n} + {4 - n}?", "answer": "4"}}\n' for n in range(QUESTIONS)))
    server_side = Window(REFUSALS[form])
    with FakeOpenAI(server_side) as server:
        model = f"openai-compatible:m@{server.base_url}"
        called = ["eval", rows, "--agent", "direct", "--model", model, "--out", tmp_path / "out", "--concurrency", 24]
        done = succeeds(*called)
    records = read(tmp_path / "out")[1]
    assert server_side.refused
    assert [record.error for record in records if record.failed] == []
    assert len(records) == QUESTIONS
    assert all(record.correct for record in records)
    assert pace.PACE.waited > 0
    assert ("waited for" in done.stderr) is (pace.PACE.waited >= 1)
