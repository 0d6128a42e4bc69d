"""Calls of the policy, as verl's servers get them."""

from types import SimpleNamespace
from unittest.mock import AsyncMock

from agentflow.rl.policy.chat import ChatRequest, TokenReply
from agentflow.rl.trainer.agent_loop import VerlPolicy


async def seeds(seed_requests: bool) -> list[int | None]:
    """The seeds of two equal calls of a rollout."""
    output = SimpleNamespace(token_ids=[5, 2], log_probs=[-0.5, -0.1], extra_fields={"global_steps": 3})
    said = TokenReply("hi", [1], [5, 2], [-0.5, -0.1], "stop")
    servers = SimpleNamespace(generate=AsyncMock(return_value=output))
    loop = SimpleNamespace(
        config=SimpleNamespace(seed=0),
        format=SimpleNamespace(reply=AsyncMock(return_value=said)),
        server_manager=servers,
        seed_requests=seed_requests,
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
