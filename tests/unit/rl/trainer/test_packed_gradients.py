"""Packed into one row or one row a turn: the gradient of every parameter is the same."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch
from transformers import Qwen2ForCausalLM

from agentflow.rl.algorithms.flow_grpo import FlowGRPO
from agentflow.rl.rollout.calls import Call, ids_array, logprobs_array
from agentflow.rl.rollout.packing import TrainingSample, pack
from agentflow.rl.trainer.loss import surrogate
from tests.unit.rl.algorithms.rollouts import rollout
from tests.unit.rl.trainer.tensors import tiny

VOCABULARY = 40


def trajectory(rng: random.Random, name: str, turns: int, mismatch: int | None) -> list[Call]:
    """Calls whose prompts grow; that of turn `mismatch` begins anew."""

    def ids(number: int) -> list[int]:
        return [rng.randrange(VOCABULARY) for _ in range(number)]

    calls: list[Call] = []
    for turn in range(turns):
        before = [*calls[-1].prompt_ids, *calls[-1].response_ids] if calls and turn != mismatch else []
        response = ids(rng.randint(1, 5))
        logprobs = [-3.0 - rng.random() for _ in response]
        tokens = ids_array([*before, *ids(4)]), ids_array(response), logprobs_array(logprobs)
        calls.append(Call(name, "planner", turn, *tokens, "stop", 0))
    return calls


def gradients(trajectories: Sequence[Sequence[Call]], *, limit: int) -> tuple[dict[str, torch.Tensor], int]:
    """Return the gradients with rows of at most `limit` response tokens, and the number of computed tokens."""
    lengths = [[len(call.response_ids) for call in calls] for calls in trajectories]
    rollouts = [rollout(reward, lengths=each) for reward, each in zip([1.0, 0.0, 1.0], lengths, strict=True)]
    credit = FlowGRPO().credit(rollouts)
    policy, computed = tiny(VOCABULARY, attn_implementation="eager").double(), 0
    for number, of in enumerate(trajectories):
        for row in pack(of, limit=limit):
            computed += len(row.prompt_ids) + len(row.response_ids)
            loss = -sum(
                credit[number][call.turn].weight * gain.sum()
                for call, gain in zip(row.calls, gains(policy, row, credit[number][0].advantage), strict=True)
            )
            loss.backward()
    return {name: parameter.grad.clone() for name, parameter in policy.named_parameters()}, computed


def gains(policy: Qwen2ForCausalLM, row: TrainingSample, advantage: float) -> list[torch.Tensor]:
    """Return the surrogate of each token of each call in the row."""
    tokens = torch.tensor([[*row.prompt_ids, *row.response_ids]])
    scores = policy(tokens).logits[0, :-1].log_softmax(-1)
    log_probs = scores.gather(1, tokens[0, 1:, None])[:, 0][len(row.prompt_ids) - 1 :]
    ratios = (log_probs - torch.tensor(row.logprobs, dtype=torch.float64)).exp()
    gain = surrogate(ratios, torch.full_like(ratios, advantage), 0.2, 0.3)
    return [gain[start : start + length] for start, length in row.spans]


def interleaved(rng: random.Random, name: str, turns: int, mismatch: int | None) -> list[Call]:
    """Two conversations of one trajectory, whose calls alternate."""
    both = trajectory(rng, name, turns, mismatch), trajectory(rng, name, turns, None)
    calls = [call for pair in zip(*both, strict=True) for call in pair]
    return [replace(call, turn=turn) for turn, call in enumerate(calls)]


@pytest.mark.parametrize("calls_of", [trajectory, interleaved])
@pytest.mark.parametrize("mismatch", [None, 1, 2])
def test_packing_changes_no_gradient(mismatch: int | None, calls_of: Callable[..., list[Call]]) -> None:
    rng = random.Random(7)
    trajectories = [calls_of(rng, str(number), turns, mismatch) for number, turns in enumerate((4, 1, 3))]
    packed, fewer = gradients(trajectories, limit=1000)
    unpacked, all_of_them = gradients(trajectories, limit=0)
    assert fewer < all_of_them
    for name, gradient in unpacked.items():
        assert gradient.abs().max() > 0
        torch.testing.assert_close(packed[name], gradient, atol=1e-7, rtol=1e-5)  # norms are in single precision
