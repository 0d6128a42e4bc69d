"""Calls of a trajectory as rows to train on, several in one row wherever they share their tokens.

The planner's prompt only ever grows: a turn's prompt is the last turn's prompt, what was sampled for it, and what came
of it. Where that holds id by id, the turns are one sequence, whose beginning is computed once instead of once a turn.
A trajectory may have several such chains, as where two nodes each keep a conversation of their own: a call continues
the longest row that its prompt extends, so that k append-only chains are at most k rows, however they interleave. Where
a prompt extends none (a tool result was shortened, the text of a reply tokenises differently from how it was sampled),
a new row begins; the result is the same, and costs more. The new row says why.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from agentflow.rl.calls import Call


class Reason(StrEnum):
    """Why a call could not continue a row. The first that holds is the one."""

    OFF = "off"
    """Turns are not packed."""
    REPLY = "reply"
    """Its prompt differs within a reply, whose text tokenises differently from how it was sampled."""
    PROMPT = "prompt"
    """Its prompt differs within what was prompted before: that was rendered anew."""
    FULL = "full"
    """Its prompt extends the row, which would then be longer than a row may be."""


@dataclass(frozen=True)
class PrefixMismatch:
    """Where a call's prompt left the row that it shares most tokens with, and why."""

    reason: Reason
    position: int
    """Number of the row's tokens that the prompt repeats: where the first stands, from 0, that it does not."""
    length: int
    """Of the row: prompt and response."""
    expected: int | None = None
    """The row's token at that position; None where all are repeated, or nobody looked."""
    found: int | None = None
    """The prompt's; None as above, and where the prompt ends there."""


@dataclass
class TrainingSample:
    """One sequence. Invariant: response_ids, mask and logprobs have the same length."""

    prompt_ids: "array[int]"
    response_ids: "array[int]" = field(default_factory=lambda: array("i"))
    """What was sampled, with what the prompts added between the calls."""
    mask: "array[int]" = field(default_factory=lambda: array("b"))
    """1 where a token was sampled, else 0."""
    logprobs: "array[float]" = field(default_factory=lambda: array("f"))
    """Of sampled tokens; 0.0 elsewhere."""
    calls: list[Call] = field(default_factory=list)
    mismatch: PrefixMismatch | None = None
    """Why it does not continue one of the rows before; None of a trajectory's first."""

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Where each call's tokens begin in `response_ids`, and how many there are."""
        before = len(self.prompt_ids)
        return [(len(call.prompt_ids) - before, len(call.response_ids)) for call in self.calls]


def pack(calls: Sequence[Call], *, limit: int) -> list[TrainingSample]:
    """The rows of one trajectory's `calls`; none has a response of more than `limit` tokens, unless one call has.

    With a limit of 0, every call is a row.
    """
    rows: list[TrainingSample] = []
    for call in calls:
        row = max((row for row in rows if _continues(call, row, limit)), key=_length, default=None)
        if row is None:
            row = TrainingSample(call.prompt_ids, mismatch=_broken(rows, call, limit))
            rows.append(row)
        added = call.prompt_ids[_length(row) :]
        row.response_ids.extend(added + call.response_ids)
        row.mask.frombytes(bytes(len(added)) + b"\1" * len(call.response_ids))
        row.logprobs.extend(array("f", bytes(4 * len(added))) + call.logprobs)
        row.calls.append(call)
    return rows


def first_difference(known: "array[int]", found: "array[int]") -> int | None:
    """Where the first token stands, from 0, that `found` does not repeat of `known`; None where it repeats all."""
    if found[: len(known)] == known:
        return None
    shorter = min(len(known), len(found))
    differs = np.asarray(known)[:shorter] != np.asarray(found)[:shorter]
    return int(differs.argmax()) if differs.any() else shorter


def _length(row: TrainingSample) -> int:
    return len(row.prompt_ids) + len(row.response_ids)


def _continues(call: Call, row: TrainingSample, limit: int) -> bool:
    """Whether a call's prompt repeats all of a row, which has room for what is new."""
    first, prompt = len(row.prompt_ids), call.prompt_ids
    fits = limit and len(prompt) - first + len(call.response_ids) <= limit
    return bool(fits) and prompt[:first] == row.prompt_ids and prompt[first : _length(row)] == row.response_ids


def _broken(rows: Sequence[TrainingSample], call: Call, limit: int) -> PrefixMismatch | None:
    """Why `call` continues none of `rows`; None if there are none."""
    if not rows:
        return None
    if limit == 0:
        return PrefixMismatch(Reason.OFF, 0, _length(rows[-1]))
    prompt = call.prompt_ids
    nearest, known, position = rows[0], array("i"), -1
    for row in rows:
        ids = row.prompt_ids + row.response_ids
        found = first_difference(ids, prompt)
        shared = len(ids) if found is None else found
        if shared >= position:
            nearest, known, position = row, ids, shared
    if position == len(known):
        return PrefixMismatch(Reason.FULL, position, position)
    replies = ((len(before.prompt_ids), len(before.response_ids)) for before in nearest.calls)
    in_reply = any(start <= position < start + length for start, length in replies)
    differs = prompt[position] if position < len(prompt) else None
    return PrefixMismatch(Reason.REPLY if in_reply else Reason.PROMPT, position, len(known), known[position], differs)
