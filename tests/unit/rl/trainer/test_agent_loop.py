"""Calls of the policy, as verl's servers get them."""

import asyncio
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from agentflow.rl.policy.chat import ChatRequest, TokenReply
from agentflow.rl.trainer.agent_loop import FlowAgentLoop, VerlPolicy, _places


async def seeds(seed_requests: bool) -> list[int | None]:
    """The seeds of two equal calls of a rollout."""
    output = SimpleNamespace(token_ids=[5, 2], log_probs=[-0.5, -0.1], extra_fields={"global_steps": 3})
    said = TokenReply("hi", [1], [5, 2], [-0.5, -0.1], "stop")
    servers = SimpleNamespace(generate=AsyncMock(return_value=output))
    loop = SimpleNamespace(
        config=SimpleNamespace(seed=0),
        format=SimpleNamespace(reply=Mock(return_value=said)),
        server_manager=servers,
        settings=SimpleNamespace(seed_requests=seed_requests),
        fitted=lambda request: ([1], 8),
    )
    policy = VerlPolicy(loop, {"temperature": 0.7}, "task/0")
    for _ in range(2):
        reply = await policy(ChatRequest([]))
        assert reply.text == "hi"
        assert reply.weights_version == 3
    return [call.kwargs["sampling_params"].get("seed") for call in servers.generate.await_args_list]


async def test_calls_carry_a_seed_only_where_it_is_asked_for() -> None:
    assert await seeds(False) == [None, None]
    first = await seeds(True)
    assert len(set(first)) == 2
    assert await seeds(True) == first


async def test_the_clock_of_a_rollout_starts_when_it_has_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 384 validation tries had a clock while it waited for the others: 363 ran out of time."""
    _places.cache_clear()
    running, most, ends = 0, 0, asyncio.Event()

    async def rollout(self: FlowAgentLoop, sampling: dict[str, Any], row: dict[str, Any]) -> str:
        nonlocal running, most
        running, most = running + 1, max(most, running + 1)
        await ends.wait()
        running -= 1
        return str(row["name"])

    monkeypatch.setattr(FlowAgentLoop, "_rollout", rollout)
    monkeypatch.setattr(FlowAgentLoop, "outputs", lambda self, ended, row: [ended])
    loops = [FlowAgentLoop.__new__(FlowAgentLoop) for _ in range(7)]
    for loop in loops:
        loop.concurrency = 3
    tasks = [asyncio.create_task(loop.run({}, name=f"{number}")) for number, loop in enumerate(loops)]
    for _ in range(20):
        await asyncio.sleep(0)
    assert (running, most) == (3, 3)
    ends.set()
    assert await asyncio.gather(*tasks) == [[f"{number}"] for number in range(7)]
    assert most == 3
