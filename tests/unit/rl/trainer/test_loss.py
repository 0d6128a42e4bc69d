import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu

from agentflow.rl.algorithms.flow_grpo import FlowGRPO
from agentflow.rl.rollout.batch import CallSpan, matters
from agentflow.rl.settings import compose_settings
from agentflow.rl.trainer.loss import flow_grpo_loss, supervised_loss
from tests.unit.rl.algorithms.rollouts import rollout
from tests.unit.rl.trainer.tensors import nested

LOW, HIGH, BETA = 0.2, 0.3, 0.04


@dataclass
class Turn:
    """log-probabilities of each token: now, when sampled, and of the reference"""

    now: list[float]
    old: list[float]
    reference: list[float]


@dataclass
class Rollout:
    group: str
    reward: float
    turns: list[Turn] = field(default_factory=list)


def trajectories(seed: int) -> list[Rollout]:
    """Groups of unequal size, turns and lengths; ratios on both sides of both clips."""
    rng = random.Random(seed)
    found = []
    for group in "abc":
        for _ in range(rng.randint(2, 5)):
            turns = []
            for _ in range(rng.randint(1, 4)):
                old = [-rng.random() * 3 for _ in range(rng.randint(1, 7))]
                now = [value + rng.gauss(0, 0.3) for value in old]
                turns.append(Turn(now, old, [value + rng.gauss(0, 0.5) for value in old]))
            found.append(Rollout(group, float(rng.random() < 0.5), turns))
    return found


def reference_loss(batch: list[Rollout]) -> float:
    """The objective of Flow-GRPO, written out in loops, with nothing of the project in it."""
    total = 0.0
    for trajectory in batch:
        rewards = [other.reward for other in batch if other.group == trajectory.group]
        mean = sum(rewards) / len(rewards)
        deviation = math.sqrt(sum((reward - mean) ** 2 for reward in rewards) / (len(rewards) - 1))
        advantage = (trajectory.reward - mean) / (deviation + 1e-6) if deviation else 0.0
        per_turn = 0.0
        for turn in trajectory.turns:
            per_token = 0.0
            for now, old, reference in zip(turn.now, turn.old, turn.reference, strict=True):
                ratio = math.exp(now - old)
                clipped = min(max(ratio, 1 - LOW), 1 + HIGH)
                divergence = math.exp(reference - now) - (reference - now) - 1
                per_token += min(ratio * advantage, clipped * advantage) - BETA * divergence
            per_turn += per_token / len(turn.now)
        total += per_turn / len(trajectory.turns)
    return -total / len(batch)


KIND = compose_settings("atlas-cpu", []).actor_rollout_ref.actor.kl_loss_type
"""The presets' kind of KL."""


def actor(beta: float = BETA) -> Any:
    """The fields of verl's actor configuration that the loss reads."""
    return SimpleNamespace(
        clip_ratio_low=LOW,
        clip_ratio_high=HIGH,
        use_kl_loss=True,
        kl_loss_type=KIND,
        kl_loss_coef=beta,
        entropy_coeff=0.0,
    )


def given(now: Sequence[torch.Tensor], columns: dict[str, list[list[float]]]) -> tuple[dict[str, Any], TensorDict]:
    """Return a loss's arguments as verl passes them: the model's output and the batch.

    `now` holds log-probabilities [rows][tokens], which may need a gradient.
    """
    data = TensorDict({name: nested(rows, torch.float64) for name, rows in columns.items()}, len(now))
    data["prompts"], data["responses"] = nested([[1.0, 2.0, 3.0]] * len(now)), nested(columns["response_mask"])
    tu.assign_non_tensor(data, dp_size=1)
    # The model's log-probability of a token stands at the token before it.
    rows = [torch.cat([row.new_zeros(2), row, row.new_zeros(1)]) for row in now]
    offsets = torch.tensor([0, *accumulate(map(len, rows))])
    return {"log_probs": torch.nested.nested_tensor_from_jagged(torch.cat(rows), offsets)}, data


def single(
    now: torch.Tensor, weights: list[float], beta: float = BETA, **columns: list[float]
) -> tuple[Any, dict[str, Any]]:
    """The loss of rows of one token each; `now` [rows] may carry a gradient. Old and reference are `now` by default."""
    known = {"old_log_probs": now.tolist(), "ref_log_prob": now.tolist(), "token_weights": weights}
    known |= {"response_mask": [1.0] * len(now), "advantages": [0.0] * len(now), **columns}
    output, data = given(list(now[:, None]), {name: [[value] for value in column] for name, column in known.items()})
    loss, metrics = flow_grpo_loss(actor(beta), output, data)
    return loss, {name: metric.aggregate() for name, metric in metrics.items()}


GAP = {"response_mask": 0.0, "old_log_probs": -9.0, "ref_log_prob": -9.0, "advantages": 0.0, "token_weights": 0.0}
"""What stands between the turns of a row."""


def loss_of(batch: list[Rollout], rows: list[list[tuple[int, int]]], padding: int = 0) -> float:
    """Our loss of `batch`, its turns laid out as `rows` of (trajectory, turn); a gap of two tokens between turns."""
    credit = FlowGRPO().credit(
        [rollout(one.reward, group=one.group, lengths=[len(turn.now) for turn in one.turns]) for one in batch]
    )
    columns: dict[str, list[list[float]]] = {name: [] for name in (*GAP, "now")}
    for row in rows:
        made: dict[str, list[float]] = {name: [] for name in columns}
        for position, (i, t) in enumerate(row):
            turn, own = batch[i].turns[t], credit[i][t]
            values = {"now": turn.now, "old_log_probs": turn.old, "ref_log_prob": turn.reference}
            for name, value in (("response_mask", 1.0), ("advantages", own.advantage), ("token_weights", own.weight)):
                values[name] = [value] * len(turn.now)
            for name, found in made.items():
                found += [GAP.get(name, -7.0)] * (2 if position else 0) + values[name]
        for name, column in columns.items():
            column.append(made[name])
    for name, column in columns.items():
        column += [[-3.0 if name == "now" else 0.0]] * padding
    now = [torch.tensor(row, dtype=torch.float64) for row in columns.pop("now")]
    loss, metrics = flow_grpo_loss(actor(), *given(now, columns))
    assert set(metrics) == {"objective", "clip_fraction", "kl"}
    return float(loss)


@pytest.mark.parametrize("seed", range(20))
def test_it_is_the_objective_of_the_paper(seed: int) -> None:
    batch = trajectories(seed)
    rows = [[(i, t)] for i, trajectory in enumerate(batch) for t in range(len(trajectory.turns))]
    assert loss_of(batch, rows) == pytest.approx(reference_loss(batch), abs=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_packed_turns_and_padding_change_nothing(seed: int) -> None:
    batch = trajectories(seed)
    packed = [[(i, t) for t in range(len(trajectory.turns))] for i, trajectory in enumerate(batch)]
    assert loss_of(batch, packed, padding=3) == pytest.approx(reference_loss(batch), abs=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_the_expected_gradient_of_the_kl_term_is_the_gradient_of_kl(seed: int) -> None:
    """In expectation over the policy: every token of a small vocabulary is a row, weighted by its probability."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(7, generator=generator, dtype=torch.float64).requires_grad_()
    reference = torch.randn(7, generator=generator, dtype=torch.float64).log_softmax(0)
    now = logits.log_softmax(0)
    loss, metrics = single(now, now.detach().exp().tolist(), ref_log_prob=reference.tolist())
    kl = (now.exp() * (now - reference)).sum()
    assert metrics["kl"] == pytest.approx(kl.item(), abs=1e-6)
    (estimated,) = torch.autograd.grad(loss, logits, retain_graph=True)
    (exact,) = torch.autograd.grad(BETA * kl, logits)
    assert estimated.tolist() == pytest.approx(exact.tolist(), abs=1e-6)


def test_importance_weights_are_not_counted_as_clipped() -> None:
    """Only the last of four tokens of equal weight has a ratio beyond its clip."""
    now = torch.tensor([-1.0, -1.0, -1.0, -0.5], dtype=torch.float64)
    told = {"old_log_probs": [-1.0] * 4, "advantages": [1.0, -1.0, 1.0, 1.0]}
    _, metrics = single(now, [0.25] * 4, rollout_is_weights=[0.5, 2.0, 1.0, 1.0], **told)
    assert metrics["clip_fraction"] == pytest.approx(0.25)


@pytest.mark.parametrize(("beta", "left_out"), [(0.0, True), (BETA, False)])
def test_rows_are_left_out_only_where_the_gradient_does_not_depend_on_them(beta: float, left_out: bool) -> None:
    """Three trajectories of a settled group beside three of one that has something to teach."""
    credit = {f"q_{n}_0": [CallSpan(0, 1, 0.0 if n < 3 else n - 4.0, 1 / 6)] for n in range(6)}
    kept = [key for key in credit if matters(credit[key], regularised=beta > 0)]
    assert (len(kept) < len(credit)) is left_out
    parameters = torch.randn(6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def gradient(keys: list[str]) -> list[float]:
        now = parameters.clone().requires_grad_()
        rows = [int(key.split("_")[1]) for key in keys]
        own = [credit[key][0] for key in keys]
        loss, _ = single(
            -now[rows].exp(),
            [weight for *_, weight in own],
            beta=beta,
            advantages=[advantage for _, _, advantage, _ in own],
            ref_log_prob=[-1.0] * len(rows),
        )
        (found,) = torch.autograd.grad(loss, now)
        return list(found.tolist())

    assert gradient(kept) == pytest.approx(gradient(list(credit)), abs=1e-7)


def test_the_supervised_gradient_is_that_of_the_cross_entropy_of_the_tokens_to_imitate() -> None:
    """Rows of an accepted rollout with a fault and a gap, and of one that is left out; the rollout's values are NaN."""
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(2, 6, 5, generator=generator, dtype=torch.float64).requires_grad_()
    tokens = torch.randint(5, (2, 6), generator=generator)
    imitated = torch.tensor([[1, 1, 0, 0, 1, 1], [0, 0, 0, 0, 0, 0]])
    columns = {
        "response_mask": [[1, 1, 0, 1, 1, 1], [1] * 6],
        "old_log_probs": [[math.nan] * 6] * 2,
        "advantages": imitated.tolist(),
        "token_weights": (imitated / 4).tolist(),
    }
    now = logits.log_softmax(-1).gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    loss, metrics = supervised_loss(actor(), *given(list(now), columns))
    chosen = imitated.bool()
    expected = torch.nn.functional.cross_entropy(logits[chosen], tokens[chosen])
    assert metrics["nll"].aggregate() == pytest.approx(expected.item())
    (found,) = torch.autograd.grad(loss, logits, retain_graph=True)
    (exact,) = torch.autograd.grad(expected, logits)
    assert torch.allclose(found, exact)
