"""Alarm of a training that goes wrong: what the lines of metrics.jsonl show before the reward is gone, and its cause.

Most rules compare the last two steps with a bound, or with the first steps, and hold in both before there is an alarm,
since a single step of few rollouts may look like anything. A policy that cannot write what the graph reads shows in
one step, and an update that destroys it in the rollouts after it. Lost rollouts come first: all other figures are those
of the rest.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from statistics import mean
from typing import Any, NamedTuple

BASELINE_STEPS, RECENT_STEPS = 3, 2
"""Steps that a relative rule takes as its measure, and steps in which a rule must hold."""

MAX_DRIFT, MAX_EXACT_DRIFT = 0.1, 1e-3
"""Mean distance of the two engines, in nats a token, that rounding does not explain: in half precision, and where both
compute in single precision, which differ by 1e-5 at most."""
MAX_DRIFT_RATIO = 5.0
"""Factor by which this distance has grown, from MAX_EXACT_DRIFT on."""
MAX_CHANGE, MAX_SINGLE_CHANGE, MAX_SURVIVED = 0.15, 0.35, 0.7
"""Mean change of a token's log-probability by an update, in nats, that a policy does not survive for long: of each of
the last steps, and of a single one, unless the reward rises; and of one after which no reward was seen to."""
MAX_KL_RISE = 0.15
"""Rise of the KL divergence from the reference in one step, in nats a token, over its highest value before."""
MAX_FAULT_RATE = 0.8
"""Share of calls that lead to an error, from the first step on, by which the policy cannot know the format."""
FAULT_RISE = 0.3
"""Rise of the share of calls that lead to an error."""
MIN_ENTROPY_RATIO, MAX_ENTROPY_RATIO = 0.3, 5.0
"""Ratio to the first steps' entropy below which the rollouts of a task hardly differ, and above which replies become
random."""
MAX_LENGTH_RATIO = 1.3
"""Factor by which the replies have grown."""
MAX_LEFT_OUT = 0.5
"""Share of rollouts without a reward, beyond which the reward is that of a chosen few."""
HACKING_MARGIN = 0.1
"""Rise of the reward, or fall of the held-out accuracy, that few tasks do not explain."""
MAX_REWARD_LOSS = 0.1
"""How far the reward may be below its best where large updates are those of a policy that learns fast."""


class Cause(StrEnum):
    """Cause of an alarm."""

    MISMATCH = "mismatch"
    """The engine that samples computes other probabilities than the one that trains."""
    STALE = "stale rollouts"
    """Rollouts are sampled with older and older weights."""
    LEARNING_RATE = "learning rate"
    """An update changes the policy by too much."""
    TEMPLATE = "template"
    """The policy never writes what the graph can read: a wrong chat template or prompt, or a model that is too weak."""
    TOOL = "tool"
    """Calls begin to fail that did not fail before."""
    ENTROPY = "entropy"
    """The policy settles, so that the rollouts of a task no longer differ, or its replies become random."""
    LENGTH = "length"
    """The replies grow."""
    LEFT_OUT = "rollouts left out"
    """Most rollouts have no reward."""
    HACKING = "reward hacking"
    """The reward rises, and the held-out accuracy falls."""


class Alarm(NamedTuple):
    """A cause, the figures that show it, and what to do."""

    cause: Cause
    evidence: str
    remedy: str


Line = Mapping[str, Any]
Rule = Callable[[Sequence[Line], Sequence[Line], float], str | None]
"""Returns the figures that show a cause, given the lines of the steps and of the validations, and `max_drift`."""


def alarm(lines: Sequence[Line], max_drift: float = MAX_DRIFT) -> Alarm | None:
    """Return the alarm of the last step of a training, given all lines of its metrics.jsonl; None if it looks well.

    `max_drift` is MAX_DRIFT or MAX_EXACT_DRIFT, by the precision of the engines.
    """
    steps = [line for line in lines if line["split"] == "train"]
    tests = [line for line in lines if line["split"] == "test" and "lost" not in line]
    for cause, (rule, remedy) in RULES.items():
        if evidence := rule(steps, tests, max_drift):
            return Alarm(cause, evidence, remedy)
    return None


def _values(name: str, steps: Sequence[Line]) -> list[float]:
    return [float(line[name]) for line in steps if isinstance(line.get(name), int | float)]


def _lowest(name: str, steps: Sequence[Line]) -> float:
    """Return the lower value of the last steps; 0 if one is missing."""
    found = _values(name, steps[-RECENT_STEPS:])
    return min(found) if len(found) == RECENT_STEPS else 0.0


def _first(name: str, steps: Sequence[Line]) -> float | None:
    """Return the mean of the first steps; None while they are not over."""
    found = _values(name, steps[:BASELINE_STEPS])
    return mean(found) if len(found) == BASELINE_STEPS and len(steps) >= BASELINE_STEPS + RECENT_STEPS else None


def _mismatch(steps: Sequence[Line], tests: Sequence[Line], max_drift: float) -> str | None:
    drift, begun = _lowest("drift", steps), _values("drift", steps[:1])
    if drift > max_drift and begun and begun[0] > max_drift:
        return f"the engine that samples is {drift:.2g} nats a token from the one that trains, from the first step on"
    return None


def _stale(steps: Sequence[Line], tests: Sequence[Line], max_drift: float) -> str | None:
    drift, begun = _lowest("drift", steps), _values("drift", steps[:1])
    stale_by_design = any(line.get("staleness") for line in steps[-RECENT_STEPS:])
    expected = MAX_DRIFT if stale_by_design else MAX_EXACT_DRIFT
    if begun and drift > max(expected, MAX_DRIFT_RATIO * begun[0]):
        return f"the distance of the two engines has grown from {begun[0]:.2g} to {drift:.2g} nats a token"
    return None


def _learning_rate(steps: Sequence[Line], tests: Sequence[Line], max_drift: float) -> str | None:
    before = steps[:-1]  # the update of the last step shows in the rollouts of the next one
    now, change = (max(_values("logprob_change", some[-1:]), default=0.0) for some in (steps, before))
    if before and now > MAX_SURVIVED:  # the first one is as large as the learning rate, whatever the gradient
        return f"the step's update moves a token's log-probability by {now:.2f} nats"
    if _learns(steps):
        return None
    if change > MAX_SINGLE_CHANGE or _lowest("logprob_change", before) > MAX_CHANGE:
        return f"the update before moved a token's log-probability by {change:.2f} nats, and the reward has not risen"
    kl = _values("kl", steps)
    if len(kl) > 1 and kl[-1] > (highest := max(kl[:-1])) + MAX_KL_RISE:
        return f"the KL divergence from the reference has risen from {highest:.2f} to {kl[-1]:.2f} nats a token"
    return None


def _learns(steps: Sequence[Line]) -> bool:
    """Return whether the reward has risen since the first step, and is as high as it has been, or nearly."""
    rewards = _values("reward", steps)
    best = max(rewards, default=0.0)
    return bool(rewards) and rewards[-1] > rewards[0] + HACKING_MARGIN and rewards[-1] > best - MAX_REWARD_LOSS


def _template(steps: Sequence[Line], tests: Sequence[Line], max_drift: float) -> str | None:
    found = _values("fault_rate", steps)
    if found and len(found) == len(steps) and min(found) > MAX_FAULT_RATE:
        return f"{min(found):.0%} of the calls or more led to an error in every step"
    return None


def _tool(steps: Sequence[Line], tests: Sequence[Line], max_drift: float) -> str | None:
    now, before = _lowest("fault_rate", steps), _first("fault_rate", steps)
    if before is not None and now > before + FAULT_RISE:
        return f"{now:.0%} of the calls lead to an error, where {before:.0%} did in the first steps"
    return None


def _entropy(steps: Sequence[Line], tests: Sequence[Line], max_drift: float) -> str | None:
    before, found = _first("entropy", steps), _values("entropy", steps[-RECENT_STEPS:])
    if not before or len(found) < RECENT_STEPS:
        return None
    if max(found) < MIN_ENTROPY_RATIO * before:
        return f"the entropy has fallen from {before:.3f} to {max(found):.3f} nats a token"
    if min(found) > MAX_ENTROPY_RATIO * before:
        return f"the entropy has risen from {before:.3f} to {min(found):.3f} nats a token"
    return None


def _length(steps: Sequence[Line], tests: Sequence[Line], max_drift: float) -> str | None:
    now, before = _lowest("reply_tokens", steps), _first("reply_tokens", steps)
    if before and now > MAX_LENGTH_RATIO * before:
        return f"a reply has {now:.0f} tokens, where it had {before:.0f} in the first steps"
    return None


def _left_out(steps: Sequence[Line], tests: Sequence[Line], max_drift: float) -> str | None:
    if (share := _lowest("left_out", steps)) <= MAX_LEFT_OUT:
        return None
    lost = {name.removeprefix("status/"): value for name, value in steps[-1].items() if name.startswith("status/")}
    named = ", ".join(f"{value:.0f} {status}" for status, value in lost.items() if value and status != "ok")
    busy = "; the machine is busy" if lost.get("timed_out", 0) > sum(lost.values()) * share / 2 else ""
    return f"{share:.0%} of the rollouts are left out ({named}){busy}; the reward is that of the others"


def _hacking(steps: Sequence[Line], tests: Sequence[Line], max_drift: float) -> str | None:
    now, before = _lowest("reward", steps), _first("reward", steps)
    accuracy = _values("accuracy", tests)
    if before is None or len(accuracy) < RECENT_STEPS:
        return None
    if now > before + HACKING_MARGIN and accuracy[-1] < accuracy[0] - HACKING_MARGIN:
        return (
            f"the reward has risen from {before:.2f} to {now:.2f}, and the held-out accuracy has fallen from "
            f"{accuracy[0]:.2f} to {accuracy[-1]:.2f}"
        )
    return None


READ = "read the replies in rollouts/, and "
RULES: Mapping[Cause, tuple[Rule, str]] = {
    Cause.LEFT_OUT: (_left_out, "read the errors in rollouts/, and mend what fails, or count it (flow.count_as_zero)"),
    Cause.MISMATCH: (_mismatch, "check precision, kernels and chat template of the engine that samples"),
    Cause.STALE: (_stale, "check that weights reach the engine that samples"),
    Cause.TEMPLATE: (_template, f"{READ}check the chat template and the prompts"),
    Cause.LEARNING_RATE: (_learning_rate, "lower lr"),
    Cause.HACKING: (_hacking, f"{READ}correct the reward"),
    Cause.TOOL: (_tool, "read the errors in rollouts/, and check the tools"),
    Cause.ENTROPY: (_entropy, "raise kl, or lower lr"),
    Cause.LENGTH: (_length, f"{READ}limit or penalise their length"),
}
"""The rule of each cause and the remedy, as an imperative, in the order in which they are asked."""
