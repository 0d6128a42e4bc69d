"""A step of training in double precision, from the equations alone, call by call; nothing of the project is in it.

    J = sum_i 1/G sum_t 1/T_i sum_j 1/|a_i^t| [w min(rho A, clip(rho) A) - beta KL + c H]      (Flow-GRPO)

A step of `updates` updates divides the trajectories, in the order of their names, one by one among them, and weighs
each `updates` times. Rollouts that are left out are not passed in.
"""

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass
class Call:
    prompt: list[int]
    reply: list[int]
    sampled: list[float]
    """Log-probabilities under the weights that sampled it."""
    fault: bool


@dataclass
class Trajectory:
    name: str
    question: str
    reward: float
    calls: list[Call]


@dataclass
class Settings:
    algorithm: str
    penalty: float
    temperature: float
    beta: float
    entropy: float
    updates: int | None
    size: int
    bypass: bool
    cap: float | None
    """Most of an importance weight; None: no weights."""
    skip_settled: bool
    """Whether trajectories that nothing is learnt from are left out of the updates."""
    low: float = 0.2
    high: float = 0.3


Advantages = list[list[float]]


def normal(value: float, values: list[float]) -> float:
    if max(values) == min(values):
        return 0.0
    return (value - statistics.fmean(values)) / (statistics.stdev(values) + 1e-6)


def advantages(step: list[Trajectory], name: str) -> Advantages:
    found: Advantages = []
    for one in step:
        group = [other for other in step if other.question == one.question]
        own = []
        for call in one.calls:
            if name == "flow-grpo":
                value = normal(one.reward, [other.reward for other in group])
            elif name == "grpo":
                value = normal(one.reward, [other.reward for other in group for _ in other.calls])
            else:  # sft
                value = float(one.reward >= 1 and not call.fault)
            own.append(value)
        found.append(own)
    return found


def weights(step: list[Trajectory], name: str, known: Advantages) -> Advantages:
    if name == "flow-grpo":
        return [[1 / len(step) / len(one.calls) / len(call.reply) for call in one.calls] for one in step]
    pairs = [
        (call, value) for one, own in zip(step, known, strict=True) for call, value in zip(one.calls, own, strict=True)
    ]
    tokens = sum(len(call.reply) for call, value in pairs if name != "sft" or value)
    return [[1 / max(1, tokens) for _ in one.calls] for one in step]


def log_probs(model: torch.nn.Module, step: list[Trajectory], temperature: float) -> tuple[list[torch.Tensor], ...]:
    """Log-probabilities and entropies [calls][tokens], each call by itself in a row of its own."""
    calls = [call for one in step for call in one.calls]
    longest = max(len(call.prompt) + len(call.reply) for call in calls)
    rows = [[*call.prompt, *call.reply] for call in calls]
    ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
    every = (model(input_ids=ids, use_cache=False).logits.double() / temperature).log_softmax(-1)
    found, entropies = [], []
    for call, row, scores in zip(calls, rows, every, strict=True):
        own = scores[len(call.prompt) - 1 : len(row) - 1]
        found.append(own.gather(1, torch.tensor(call.reply)[:, None])[:, 0])
        entropies.append(-(own.exp() * own).sum(1))
    return found, entropies


def objective(
    now: torch.Tensor, old: torch.Tensor, sampled: torch.Tensor, value: torch.Tensor, given: Settings
) -> torch.Tensor:
    """The clipped gain of each token of a call, weighted by importance."""
    if given.algorithm == "sft":
        return value * now
    ratio = (now - old).exp()
    gain = torch.stack([ratio * value, ratio.clamp(1 - given.low, 1 + given.high) * value]).min(0).values
    return gain * (old - sampled).exp().clamp(max=given.cap) if given.cap else gain


def divergence(now: torch.Tensor, frozen: torch.Tensor) -> torch.Tensor:
    """The value of k3, at most 10 as verl has it, and the gradient of k2."""
    x = (frozen - now).detach()
    k2 = (now - frozen) ** 2 / 2
    return k2 - k2.detach() + (x.exp() - x - 1).clamp(max=10)


def train(
    model: torch.nn.Module,
    frozen: Callable[[list[Trajectory]], list[torch.Tensor]],
    step: list[Trajectory],
    given: Settings,
    descend: Callable[[int], None],
) -> list[float]:
    """Train `model`; `descend` takes its gradients after each update. Return the loss of each update."""
    with torch.no_grad():
        old, _ = log_probs(model, step, given.temperature)
        fixed = frozen(step) if given.beta else old
    known = advantages(step, given.algorithm)
    weight = weights(step, given.algorithm, known)
    places = iter(range(len(old)))
    terms: list[tuple[Trajectory, list[tuple[int, torch.Tensor, float]]]] = []
    regularised = given.beta or given.entropy
    for one, values, own in zip(step, known, weight, strict=True):
        calls = []
        for call, value, each in zip(one.calls, values, own, strict=True):
            place = next(places)
            if given.algorithm != "sft":
                value -= given.penalty * call.fault
            signal = torch.full((len(call.reply),), value, dtype=torch.float64)
            calls.append((place, signal, each))
        if not given.skip_settled or regularised or any(signal.any() for _, signal, _ in calls):
            terms.append((one, calls))
    terms.sort(key=lambda pair: pair[0].name)
    number = max(1, min(given.updates or math.ceil(len(terms) / given.size), len(terms)))
    losses = []
    for update in range(number):
        now, entropies = log_probs(model, step, given.temperature)
        gain = torch.zeros((), dtype=torch.float64)
        for one, calls in terms[update::number]:
            for (place, signal, each), call in zip(calls, one.calls, strict=True):
                sampled = torch.tensor(call.sampled, dtype=torch.float64)
                token = objective(now[place], sampled if given.bypass else old[place], sampled, signal, given)
                if given.beta:
                    token = token - given.beta * divergence(now[place], fixed[place])
                gain = gain + number * each * (token + given.entropy * entropies[place]).sum()
        if gain.requires_grad:
            (-gain).backward()
        losses.append(-float(gain))
        descend(update)
    return losses
