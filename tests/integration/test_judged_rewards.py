"""Questions with free-text answers: the judge decides, and what it cannot decide is left out of training."""

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

from agentflow.rl.apps.benchmark import benchmark
from agentflow.rl.apps.trainable import Trainable
from agentflow.rl.policy.chat import ChatRequest, TokenReply
from agentflow.rl.rollout.rollout import RolloutStatus, run
from tests.fake_openai import FakeOpenAI


def played(body: dict[str, Any]) -> Any:
    """Every module, and a judge of which three in ten calls fail and one cannot tell."""
    system, last = body["messages"][0]["content"], body["messages"][-1]["content"]
    if not system.startswith("You decide whether"):
        replies = {"You carry out": '{"query": "x"}', "You check": "Verdict: stop", "You prepare": "Asked for: x."}
        return next((reply for start, reply in replies.items() if system.startswith(start)), "Answer: some city")
    number = int(json.loads(last)["question"].split()[-1])
    if number in (2, 5, 8):
        return 401, {"error": {"message": "no credit"}}, {}
    return "Verdict: undecided" if number == 9 else f"Verdict: {'correct' if number % 2 else 'incorrect'}"


async def plan(request: ChatRequest) -> TokenReply:
    return TokenReply("Sub-Goal: Say it\nTool: base_generator\nContext: x", [1], [2, 3], [-0.1, -0.2], "stop")


def app(folder: Path, url: str) -> Trainable:
    path = folder / "train.jsonl"
    rows = [
        {"question": f"Which city is number {n}", "result": "Some City; SC" if n == 0 else "Rome"} for n in range(10)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    models = {"judge": f"vllm:judge@{url}", "frozen": f"vllm:modules@{url}"}
    return benchmark(str(path), test=str(path), **models, tools=["base_generator"])


async def test_three_judge_calls_in_ten_fail_and_none_of_them_is_a_zero(tmp_path: Path) -> None:
    with FakeOpenAI(played) as server:
        trainable = app(tmp_path, server.base_url)
        graph = trainable.built()
        rollouts = [run(trainable, graph, task, plan, id=task.id, seconds=60) for task in trainable.tasks("train", 10)]
        trajectories = await asyncio.gather(*rollouts)
        asked = sum(body["messages"][0]["content"].startswith("You decide") for body in server.bodies)
    assert Counter(found.status for found in trajectories) == {
        RolloutStatus.OK: 6,
        RolloutStatus.ENDPOINT_FAILED: 3,
        RolloutStatus.UNDECIDED: 1,
    }
    rewards = [found.reward for found in trajectories if found.status == RolloutStatus.OK]
    assert rewards == [1.0, 1.0, 1.0, 0.0, 0.0, 1.0]
    assert asked == 9, "an answer that is literally one of the accepted ones needs no judge"
    assert all("401" in found.trace.error for found in trajectories if found.status == RolloutStatus.ENDPOINT_FAILED)
