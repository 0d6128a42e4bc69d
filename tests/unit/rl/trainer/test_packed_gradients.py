"""Packed into one row or one row a turn: the gradient of every parameter is the same."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch
import transformers
from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage

from agentflow.rl.algorithms.flow_grpo import FlowGRPO
from agentflow.rl.policy.chat_format import ChatFormat
from agentflow.rl.rollout.calls import Call, ids_array, logprobs_array
from agentflow.rl.rollout.packing import TrainingSample, pack
from agentflow.rl.trainer.loss import surrogate
from tests.chat_templates import ENDS, ScriptedPolicy, Talk, called, chat_format, needs_templates
from tests.unit.rl.algorithms.rollouts import rollout

VOCABULARY = 40


def model(vocabulary: int) -> "transformers.Qwen2ForCausalLM":
    torch.manual_seed(0)
    config = transformers.Qwen2Config(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        attn_implementation="eager",
    )
    return transformers.Qwen2ForCausalLM(config).double()


def trajectory(rng: random.Random, name: str, turns: int, *, mismatch: int | None) -> list[Call]:
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


def gradients(
    trajectories: Sequence[Sequence[Call]], *, limit: int, vocabulary: int = VOCABULARY
) -> tuple[dict[str, "torch.Tensor"], int]:
    """Return the gradients with rows of at most `limit` response tokens, and the number of computed tokens."""
    lengths = [[len(call.response_ids) for call in calls] for calls in trajectories]
    rollouts = [rollout(reward, lengths=each) for reward, each in zip([1.0, 0.0, 1.0], lengths, strict=True)]
    credit = FlowGRPO().credit(rollouts)
    policy, computed = model(vocabulary), 0
    for number, of in enumerate(trajectories):
        for row in pack(of, limit=limit):
            computed += len(row.prompt_ids) + len(row.response_ids)
            loss = -sum(
                credit[number][call.turn].weight * gain.sum()
                for call, gain in zip(row.calls, gains(policy, row, credit[number][0].advantage), strict=True)
            )
            loss.backward()
    return {name: parameter.grad.clone() for name, parameter in policy.named_parameters()}, computed


def gains(policy: "transformers.Qwen2ForCausalLM", row: TrainingSample, advantage: float) -> list["torch.Tensor"]:
    """Return the surrogate of each token of each call in the row."""
    tokens = torch.tensor([[*row.prompt_ids, *row.response_ids]])
    scores = policy(tokens).logits[0, :-1].log_softmax(-1)
    log_probs = scores.gather(1, tokens[0, 1:, None])[:, 0][len(row.prompt_ids) - 1 :]
    ratios = (log_probs - torch.tensor(row.logprobs, dtype=torch.float64)).exp()
    gain = surrogate(ratios, torch.full_like(ratios, advantage), 0.2, 0.3)
    return [gain[start : start + length] for start, length in row.spans]


def in_turns(first: Sequence[Call], second: Sequence[Call]) -> list[Call]:
    """Two conversations of one trajectory, whose calls alternate."""
    calls = [call for pair in zip(first, second, strict=True) for call in pair]
    return [replace(call, turn=turn) for turn, call in enumerate(calls)]


def alone(rng: random.Random, name: str, turns: int, mismatch: int | None) -> list[Call]:
    return trajectory(rng, name, turns, mismatch=mismatch)


def interleaved(rng: random.Random, name: str, turns: int, mismatch: int | None) -> list[Call]:
    return in_turns(alone(rng, name, turns, mismatch), alone(rng, name, turns, None))


@pytest.mark.parametrize("calls_of", [alone, interleaved])
@pytest.mark.parametrize("mismatch", [None, 1, 2])
def test_packing_changes_no_gradient(mismatch: int | None, calls_of: Callable[..., list[Call]]) -> None:
    rng = random.Random(7)
    trajectories = [calls_of(rng, str(number), turns, mismatch) for number, turns in enumerate((4, 1, 3))]
    assert_same_gradients(trajectories, limit=1000)


def assert_same_gradients(trajectories: Sequence[Sequence[Call]], *, limit: int, vocabulary: int = VOCABULARY) -> None:
    packed, fewer = gradients(trajectories, limit=limit, vocabulary=vocabulary)
    unpacked, all_of_them = gradients(trajectories, limit=0, vocabulary=vocabulary)
    assert fewer < all_of_them
    for name, gradient in unpacked.items():
        assert gradient.abs().max() > 0
        torch.testing.assert_close(packed[name], gradient, atol=1e-7, rtol=1e-5)  # norms are in single precision


@needs_templates
@pytest.mark.parametrize("family", [family for family in ENDS if family != "smollm2"])
def test_tool_conversations_with_spliced_replies_have_the_same_gradient(family: str) -> None:
    """Calls that the template would write differently, and a history that is summarised halfway."""
    known = chat_format(family)
    trajectories = [tool_conversation(family, known, turns) for turns in (3, 1, 2)]
    assert [len(pack(calls, limit=100_000)) for calls in trajectories] == [2, 2, 2]
    vocabulary = len(known.tokenizer)  # type: ignore[arg-type]
    assert_same_gradients(trajectories, limit=100_000, vocabulary=vocabulary)


def tool_conversation(family: str, known: ChatFormat, turns: int) -> list[Call]:
    """Return the calls of a conversation of several tool calls, and of one that begins with its summary."""
    policy = ScriptedPolicy(
        family, lambda request: called(family, "add", {"b": len(request.messages)}, tight=True), known
    )
    talk = Talk(policy)
    for question, number in (("What is 1 plus 2?", turns), ("A summary.", 2)):
        messages: list[BaseMessage] = [HumanMessage(question)]
        for _ in range(number):
            message = talk.turn(messages)
            messages += [message, *(ToolMessage("3", tool_call_id=str(call["id"])) for call in message.tool_calls)]
    return talk.calls
