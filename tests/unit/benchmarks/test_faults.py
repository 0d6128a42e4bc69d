"""`python -m benchmarks.faults` injects a fault at the drawn call, also if the rollout is retried."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from agentflow.graph.models.spec import ModelError
from agentflow.rl.policy.chat import ChatRequest
from agentflow.rl.rollout.replay_log import ReplayLog
from benchmarks.faults import Faulty
from tests.failing import fails
from tests.graphs import Server


@pytest.mark.parametrize(("answered", "passing"), [(0, 2), (1, 1), (2, 0)])
async def test_calls_that_the_log_answers_count(tmp_path: Path, answered: int, passing: int) -> None:
    """They did not, so that a server that was down at the second call was there again at the second try."""
    replay_log = ReplayLog("task/0", keep=lambda told: None)
    for _ in range(answered):
        replay_log.add("policy", "", {})
    server: Any = Server("yes")
    server.name = "task/0"
    faulty = Faulty(server, "down", 2, replay_log, tmp_path)
    for _ in range(passing):
        assert (await faulty(ChatRequest([]))).text == "yes"
    with fails(ModelError, "unreachable"):
        await faulty(ChatRequest([]))
