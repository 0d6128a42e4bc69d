"""Calls of the policy, as verl's servers get them."""

from types import SimpleNamespace
from typing import Any

from agentflow.rl.policy.chat import ChatRequest
from agentflow.rl.trainer.agent_loop import VerlPolicy


class Servers:
    """verl's servers, which keep the sampling parameters of each call."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []

    async def generate(self, sampling_params: dict[str, Any], **request: Any) -> SimpleNamespace:
        self.seen.append(sampling_params)
        return SimpleNamespace(token_ids=[5, 2], log_probs=[-0.5, -0.1], extra_fields={"global_steps": 3})


class Format:
    """Chat format whose replies are all the same."""

    async def read(self, ids: list[int], request: ChatRequest, name: str) -> SimpleNamespace:
        return SimpleNamespace(text="hi", stopped=False, tool_calls=(), reasoning="", unreadable=False)


async def seeds(seed_requests: bool) -> list[int | None]:
    """The seeds of two equal calls of a rollout."""
    loop = SimpleNamespace(
        config=SimpleNamespace(seed=0),
        format=Format(),
        server_manager=Servers(),
        tokenizer=SimpleNamespace(eos_token_id=2),
        seed_requests=seed_requests,
        fitted=lambda request: ([1], 8),
    )
    policy = VerlPolicy(loop, {"temperature": 0.7}, "task/0")
    for _ in range(2):
        reply = await policy(ChatRequest([]))
        assert reply.finish_reason == "stop"
        assert reply.weights_version == 3
    return [params.get("seed") for params in loop.server_manager.seen]


async def test_calls_carry_a_seed_only_where_it_is_asked_for() -> None:
    assert await seeds(False) == [None, None]
    first = await seeds(True)
    assert len(set(first)) == 2
    assert await seeds(True) == first
