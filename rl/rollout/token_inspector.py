"""Data of the token inspector: the tokens of a group with log-probabilities, advantages and weights.

The viewer and the training report render the same `RolloutView`. The levels that select a token's colour are
computed here.
"""

import math
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from agentflow.rl.rollout.packing import PrefixMismatch, Reason
from agentflow.rl.rollout.tokens import Sampled, TokenRow, TokenStep

DRIFTS = (0.001, 0.01, 0.1)
"""Lower bounds of drift levels 1, 2 and 3, in nats. Engines in single precision differ by less than the first, engines
in 16 bits by about the second."""

MOVED = 0.01
"""A ratio that differs from 1 by less than this has level 0."""


class Token(NamedTuple):
    """A sampled token. The viewer's script reads the fields by position."""

    id: int
    text: str
    trained: bool
    rollout: float | None
    trainer: float | None
    updated: float | None
    drift: float | None
    ratio: float | None
    clipped: bool
    """True if the token is in the flat part of the objective, where it has no gradient."""
    ratio_level: int
    """-3 to 3, negative below 1. By size: 0 close to 1, 1 up to half the clip range, 2 up to the clip, 3 beyond it."""
    drift_level: int
    """-3 to 3, with the sign of the drift and the bounds DRIFTS."""


@dataclass(frozen=True)
class Given:
    """Tokens that the model did not sample, such as a prompt or a tool result; they are not in the objective."""

    start: int
    tokens: list[tuple[int, str]]


@dataclass(frozen=True)
class Written:
    """Sampled tokens of one call."""

    start: int
    node: str
    turn: int
    advantage: float | None
    weight: float | None
    level: int
    """-3 to 3: the advantage in thirds of the group's largest absolute advantage."""
    tokens: list[Token]


@dataclass(frozen=True)
class RowView:
    """A training row."""

    why: str
    """Reason why the row does not continue an earlier one; "" for the first row of a trajectory."""
    length: int
    parts: list[Given | Written]


@dataclass(frozen=True)
class RolloutView:
    """A rollout with its training rows."""

    rollout: str
    status: str
    reward: float | None
    rows: list[RowView]


def trajectories(step: TokenStep, task: str) -> list[RolloutView]:
    """Return the trajectories of the group of `task`, in recorded order."""
    own = [row for row in step.rows if row.task == task]
    most = max((abs(call.advantage or 0.0) for row in own for call in row.calls), default=0.0)
    return [
        RolloutView(rollout, rows[0].status, rows[0].reward, [_row(step, row, most) for row in rows])
        for rollout, rows in ((name, list(found)) for name, found in groupby(own, lambda row: row.rollout))
    ]


def _row(step: TokenStep, row: TokenRow, most: float) -> RowView:
    parts: list[Given | Written] = []
    end = 0

    def given(until: int) -> None:
        if until > end:
            parts.append(Given(end, [(id, _text(step, id)) for id in row.ids[end:until]]))

    for call in row.calls:
        given(call.start)
        end = call.start + len(call.mask)
        parts.append(_written(step, row.ids[call.start : end], call, most))
    given(len(row.ids))
    return RowView(why(row.mismatch, step), len(row.ids), parts)


def _written(step: TokenStep, ids: list[int], call: Sampled, most: float) -> Written:
    nothing = [None] * len(ids)
    trainer, updated = call.trainer or nothing, call.updated or nothing
    old = call.rollout if step.old == "rollout" else trainer
    log_ratios = [_minus(after, before) for after, before in zip(updated, old, strict=True)]
    tokens = []
    for number, id in enumerate(ids):
        drift = _minus(trainer[number], call.rollout[number])
        ratio = _ratio(log_ratios[number])
        level = _ratio_level(ratio, *step.clip)
        tokens.append(
            Token(
                id,
                _text(step, id),
                call.mask[number] == 1,
                call.rollout[number],
                trainer[number],
                updated[number],
                drift,
                ratio,
                abs(level) == 3 and level * (call.advantage or 0.0) > 0,
                level,
                _drift_level(drift),
            )
        )
    share = abs(call.advantage or 0.0) / most if most else 0.0
    return Written(
        call.start,
        call.node,
        call.turn,
        call.advantage,
        call.weight,
        int(math.copysign(math.ceil(3 * share), call.advantage or 0.0)),
        tokens,
    )


def _minus(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else round(one - other, 6)


def _ratio(log_ratio: float | None) -> float | None:
    return None if log_ratio is None else math.exp(max(-20.0, min(20.0, log_ratio)))


def _ratio_level(ratio: float | None, low: float, high: float) -> int:
    if ratio is None or abs(ratio - 1) < MOVED:
        return 0
    size, bound = abs(ratio - 1), high if ratio > 1 else low
    level = 3 if size > bound else 2 if size > bound / 2 else 1
    return level if ratio > 1 else -level


def _drift_level(drift: float | None) -> int:
    level = sum(abs(drift or 0.0) >= bound for bound in DRIFTS)
    return level if (drift or 0.0) > 0 else -level


def terms(step: TokenStep) -> list[tuple[str, str]]:
    """Return the terms of the inspector with their definitions for this step."""
    low, high = step.clip
    of_loss = ", which the loss of this run takes for the old one (bypass_mode)" if step.old == "rollout" else ""
    ratio = f"exp(updated − {step.old}): the probability after the step's update over the {step.old}'s{of_loss}"
    clipped = (
        f"outlined: the ratio is beyond {1 - low:g} or {1 + high:g} on the side that the advantage pushes to, "
        "where the objective is flat"
    )
    return [
        ("advantage", "how much better than its group the trajectory did, or the call; the same for all its tokens"),
        ("ratio", ratio),
        ("clipped", clipped),
        (
            "drift",
            "trainer − rollout: what the engine that trains and the one that sampled make of the same weights, those "
            "before the update, in nats",
        ),
        ("weight", "of the token in the objective; those of all tokens of the step sum to 1"),
        ("mask", "only what was sampled is trained on; grey is what was given to the model, or left out"),
    ]


def why(mismatch: PrefixMismatch | None, step: TokenStep) -> str:
    """Explain in a sentence why a row does not continue an earlier one; "" for a trajectory's first row."""
    if mismatch is None:
        return ""
    if mismatch.reason == Reason.OFF:
        return "Turns are not packed (flow.pack_turns=false), so that every call is a row."
    if mismatch.reason == Reason.FULL:
        return f"The row is full after {mismatch.length:,} tokens: with this call it would exceed response_tokens."
    what = (
        "A reply tokenises differently in the next prompt from how it was sampled"
        if mismatch.reason == Reason.REPLY
        else "The prompt was rendered anew from here"
    )
    expected = _named(step, mismatch.expected)
    found = "the prompt ends there" if mismatch.found is None else f"found {_named(step, mismatch.found)}"
    return f"{what}: token {mismatch.position + 1:,} of {mismatch.length:,}, expected {expected}, {found}."


def _named(step: TokenStep, id: int | None) -> str:
    return f"{step.pieces.get(id, '')!r} ({id})" if id is not None else "none"


def _text(step: TokenStep, id: int) -> str:
    """Return a token's text with visible line breaks and tabs; "∅" for an empty token."""
    return step.pieces.get(id, f"#{id}").replace("\n", "↵\n").replace("\t", "⇥\t") or "∅"
