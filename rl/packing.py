"""Calls of a trajectory as rows to train on, several in one row wherever they share their tokens.

The planner's prompt only ever grows: a turn's prompt is the last turn's prompt, what was sampled for it, and what came
of it. Where that holds id by id, the turns are one sequence, whose beginning is computed once instead of once a turn.
Where it does not (a tool result was shortened, the text of a reply tokenises differently from how it was sampled), a
new row begins; the result is the same, and costs more. The new row says why.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from agentflow.rl.trace import Call


class Reason(StrEnum):
    """Why a call could not go on in the row of the call before it. The first that holds is the one."""

    OFF = "off"
    """Turns are not packed."""
    REPLY = "reply"
    """Its prompt differs within a reply, whose text tokenises differently from how it was sampled."""
    PROMPT = "prompt"
    """Its prompt differs within what was prompted before: that was rendered anew."""
    FULL = "full"
    """Its prompt goes on from the row, which would then be longer than a row may be."""


@dataclass(frozen=True)
class Break:
    """Where the row before ended, and why."""

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
class Row:
    """One sequence. Invariant: response_ids, mask and logprobs have the same length."""

    prompt_ids: "array[int]"
    response_ids: "array[int]" = field(default_factory=lambda: array("i"))
    """What was sampled, with what the prompts added between the calls."""
    mask: "array[int]" = field(default_factory=lambda: array("b"))
    """1 where a token was sampled, else 0."""
    logprobs: "array[float]" = field(default_factory=lambda: array("f"))
    """Of sampled tokens; 0.0 elsewhere."""
    calls: list[Call] = field(default_factory=list)
    broken: Break | None = None
    """Why it does not go on from the row before; None of a trajectory's first."""

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Where each call's tokens begin in `response_ids`, and how many there are."""
        before = len(self.prompt_ids)
        return [(len(call.prompt_ids) - before, len(call.response_ids)) for call in self.calls]


def pack(calls: Sequence[Call], *, limit: int) -> list[Row]:
    """The rows of one trajectory's `calls`; none has a response of more than `limit` tokens, unless one call has.

    With a limit of 0, every call is a row.
    """
    rows: list[Row] = []
    for call in calls:
        broken = _broken(rows[-1], call, limit) if rows else None
        if not rows or broken:
            rows.append(Row(call.prompt_ids, broken=broken))
        row = rows[-1]
        added = call.prompt_ids[len(row.prompt_ids) + len(row.response_ids) :]
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


def _broken(row: Row, call: Call, limit: int) -> Break | None:
    """Why `call` cannot go on in `row`; None if it can."""
    known, prompt = row.prompt_ids + row.response_ids, call.prompt_ids
    if limit == 0:
        return Break(Reason.OFF, 0, len(known))
    position = first_difference(known, prompt)
    if position is not None:
        replies = ((len(before.prompt_ids), len(before.response_ids)) for before in row.calls)
        in_reply = any(start <= position < start + length for start, length in replies)
        found = prompt[position] if position < len(prompt) else None
        return Break(Reason.REPLY if in_reply else Reason.PROMPT, position, len(known), known[position], found)
    if len(prompt) - len(row.prompt_ids) + len(call.response_ids) > limit:
        return Break(Reason.FULL, len(known), len(known))
    return None
