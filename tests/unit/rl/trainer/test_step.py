"""A step through the trainer's own methods, from rollouts to new weights, is that of the equations (reference.py)."""

import copy
import math
import random
from array import array
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import DictConfig, OmegaConf
from peft import LoraConfig, get_peft_model

from agentflow.graph.run.task import Task
from agentflow.graph.run.trace import Trace
from agentflow.rl.algorithms import NAMES
from agentflow.rl.launch.engine_config import complete
from agentflow.rl.rollout import calls as recorded
from agentflow.rl.rollout.rollout import Rollout, RolloutStatus
from tests.unit.rl.configs import composed
from tests.unit.rl.trainer import reference
from tests.unit.rl.trainer.reference import Call, Settings, Trajectory
from tests.unit.rl.trainer.steps import Queue, Workers, put, queue, trained  # noqa: F401
from tests.unit.rl.trainer.tensors import tiny

VOCABULARY = 23
RATE = 0.1
LEFT_OUT = (RolloutStatus.TIMED_OUT, RolloutStatus.ENDPOINT_FAILED, RolloutStatus.CRASHED)


def model(seed: int, *, lora: bool) -> Any:
    found: Any = tiny(
        VOCABULARY,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
    )
    if lora:
        found = get_peft_model(found, LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM"))
    return moved(found.double(), seed, 0.3)


def moved(found: Any, seed: int, by: float) -> Any:
    """The model with other weights, of those that are trained."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in found.parameters():
            if weight.requires_grad:
                weight += by * torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
    return found


def settings(rng: random.Random, seed: int) -> tuple[DictConfig, Settings, dict[str, Any]]:
    """A configuration, what of it the equations need, and what they must not depend on."""
    name = NAMES[seed % len(NAMES)]
    config = copy.deepcopy(composed("atlas-cpu"))
    OmegaConf.set_struct(config, False)
    ranks, mode = rng.choice([1, 1, 2, 4]), rng.choice(["bypass", "decoupled", "importance", "importance"])
    updates, beta = rng.choice([1, None, 2, 3]), rng.choice([0, 0.05])
    given = Settings(
        algorithm=name,
        penalty=rng.choice([0, 0.3]),
        temperature=rng.choice([1.0, 0.7]),
        beta=0 if name == "sft" else beta,
        entropy=0 if name == "sft" else rng.choice([0, 0, 0.02]),
        updates=updates,
        size=3,
        bypass=name == "sft" or mode == "bypass",
        cap=2.0 if name != "sft" and mode == "importance" else None,
        skip_settled=rng.random() < 0.7,
    )
    values = {
        "flow.algorithm": {"name": name, "penalty": given.penalty},
        "flow.updates": updates,
        "flow.pack_turns": rng.random() < 0.7,
        "flow.skip_settled_groups": given.skip_settled,
        "flow.mask_cut_off": rng.random() < 0.3,
        "questions": 2,
        "rollouts": 3,
        "response_tokens": 60,
        "temperature": given.temperature,
        "rehearsal": False,
        "token_groups": 0,
        "trainer.n_gpus_per_node": ranks,
        "actor_rollout_ref.actor.ppo_mini_batch_size": 1,
        "actor_rollout_ref.actor.use_kl_loss": bool(beta) or rng.random() < 0.5,
        "actor_rollout_ref.actor.kl_loss_coef": beta,
        "actor_rollout_ref.actor.entropy_coeff": given.entropy,
        "algorithm.rollout_correction": {"bypass_mode": given.bypass}
        | ({"rollout_is": "token", "rollout_is_threshold": 2.0} if mode == "importance" else {}),
    }
    for key, value in values.items():
        OmegaConf.update(config, key, value, merge=False)
    complete(config)
    if ranks > 1:
        config.actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu = rng.choice([1, 2])
    return config, given, {"ranks": ranks, "shared": rng.random() < 0.5, "lora": rng.random() < 0.3}


def conversations(rng: random.Random, name: str) -> list[recorded.Call]:
    """Calls of two nodes, each with a conversation of its own, which sometimes begins anew."""

    def ids(most: int) -> list[int]:
        return [rng.randrange(2, VOCABULARY) for _ in range(rng.randint(1, most))]

    opened: dict[str, list[int]] = {}
    found = []
    for turn in range(rng.randint(1, 4)):
        node = rng.choice(["planner", "planner", "critic"])
        before = opened.get(node, [2, 3, 4, 5])
        prompt, reply = (before if rng.random() < 0.8 else [2, 3, 4, 5]) + ids(3), ids(4)
        opened[node] = prompt + reply
        finish = "length" if rng.random() < 0.1 else "stop"
        found.append(
            recorded.Call(
                name, node, turn, array("i", prompt), array("i", reply), array("f"), finish, rng.randint(0, 1)
            )
        )
    return found


def step(
    rng: random.Random, config: DictConfig, sampled: Callable[[list[recorded.Call]], None]
) -> tuple[list[tuple[str, int, Rollout]], list[Trajectory]]:
    """Rollouts of a step, and those that are trained on as the equations see them."""
    made, known = [], []
    for question in "ab" + "c" * rng.randint(0, 1):
        for number in range(rng.randint(2, 4)):
            name = f"{question}/{number}"
            status = rng.choices([RolloutStatus.OK, RolloutStatus.POLICY_FAILED, rng.choice(LEFT_OUT)], [8, 1, 1])[0]
            reward = rng.choice([0.0, 0.25, 1.0, 1.0]) if status == RolloutStatus.OK else 0.0
            calls = conversations(rng, name)
            given_up = [calls.pop(0)] if len(calls) > 1 and rng.random() < 0.2 else []
            sampled([*given_up, *calls])
            faults = [rng.random() < 0.2 for _ in calls]
            trace = Trace(task=Task(id=question, question="q", gold="g"), status="answered")
            one = Rollout(name, status, reward, calls, faults, trace, given_up=given_up)
            made.append((question, number, one))
            parts = [(name, status, reward, calls, faults)]
            if given_up:
                parts.append((f"{name} given up", RolloutStatus.POLICY_FAILED, 0.0, given_up, [True]))
            for title, ended, *of in parts:
                cut_off = config.flow.mask_cut_off and any(call.finish_reason == "length" for call in of[1])
                if ended not in LEFT_OUT and not cut_off:
                    known.append(plain(title, question, *of))
    return made, known


def plain(name: str, question: str, reward: float, calls: list[recorded.Call], faults: list[bool]) -> Trajectory:
    return Trajectory(
        name,
        question,
        reward,
        [
            Call(list(call.prompt_ids), list(call.response_ids), list(call.logprobs), fault)
            for call, fault in zip(calls, faults, strict=True)
        ],
    )


def descending(found: Any, gradients: list[torch.Tensor]) -> Callable[[int], None]:
    """Descent by steps of at most `RATE`, since longer ones blow rounding up; notes the gradients of each update."""
    weights = [weight for weight in found.parameters() if weight.requires_grad]

    def descend(update: int) -> None:
        flat = [weight.new_zeros(weight.shape) if weight.grad is None else weight.grad for weight in weights]
        gradients.append(torch.cat([one.flatten() for one in flat]))
        rate = RATE / max(1.0, float(gradients[-1].norm()))
        with torch.no_grad():
            for weight, gradient in zip(weights, flat, strict=True):
                weight -= rate * gradient
                weight.grad = None

    return descend


@pytest.mark.usefixtures("one_rank")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(112))
def test_a_step_is_that_of_the_equations(seed: int, queue: Queue, tmp_path: Path) -> None:  # noqa: F811
    rng = random.Random(seed)
    config, given, free = settings(rng, seed)
    policy = model(seed, lora=free["lora"])
    frozen = policy if free["lora"] else moved(copy.deepcopy(policy), seed + 1, 0.05)
    versions = [moved(copy.deepcopy(policy), seed + 2, 0.05), copy.deepcopy(policy)]

    def sampled(calls: list[recorded.Call]) -> None:
        """Write the log-probabilities of the weights of one or another version; a teacher's replies have none."""
        for call in calls:
            one = plain("", "", 0.0, [call], [False])
            with torch.no_grad():
                [found], _ = reference.log_probs(versions[call.weights_version], [one], given.temperature)
            call.logprobs.extend(found.tolist() if given.algorithm != "sft" else [math.nan] * len(found))

    rollouts, known = step(rng, config, sampled)
    expected, fixed = copy.deepcopy(policy), copy.deepcopy(frozen)
    if free["shared"]:
        policy, frozen = policy.float(), frozen.float()
    put(rollouts, queue, config)
    actor = Workers(policy, queue, config, ranks=free["ranks"], shared=free["shared"])
    other = None if free["lora"] else Workers(frozen, queue, config, ranks=free["ranks"], shared=free["shared"])
    gradients: tuple[list[torch.Tensor], list[torch.Tensor]] = [], []
    actor.descend = descending(policy, gradients[0])
    trained(config, queue, actor, other, tmp_path)

    def reference_log_probs(step: list[Trajectory]) -> list[torch.Tensor]:
        with fixed.disable_adapter() if free["lora"] else nullcontext():
            return reference.log_probs(fixed, step, given.temperature)[0]

    losses = reference.train(expected, reference_log_probs, known, given, descending(expected, gradients[1]))
    rounding = 40 if free["shared"] else 1  # logits are in single precision; with AVX2 alone, seed 21 needs 21
    assert actor.losses == pytest.approx(losses, abs=1e-5 * rounding, rel=1e-5 * rounding)
    for update, (own, theirs) in enumerate(zip(*gradients, strict=True)):
        distance = float((own - theirs).norm() / theirs.norm().clamp(min=1e-3))
        assert distance < 2e-5 * rounding, (update, distance)
