"""Packing of a trajectory's calls into training rows; calls that share a token prefix share a row.

The planner's prompt is append-only: a turn's prompt is the previous turn's prompt, its reply, and the result of its
tool call. If this holds token by token, the turns form one sequence, whose prefix is computed once instead of once per
turn. A trajectory may have several such chains, for example if two nodes keep separate conversations. A call continues
the longest row that its prompt extends, so k append-only chains need at most k rows, however they interleave. If a
prompt extends no row (a tool result was shortened, or the text of a reply tokenises differently from how it was
sampled), a new row begins and records why. The training result is the same, at a higher cost.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from agentflow.rl.rollout.calls import Call


class Reason(StrEnum):
    """Why a call could not continue a row; the first reason that applies."""

    OFF = "off"
    """Packing is disabled."""
    REPLY = "reply"
    """The prompt differs within a reply, whose text tokenises differently from how it was sampled."""
    PROMPT = "prompt"
    """The prompt differs within an earlier prompt, which was rendered differently."""
    FULL = "full"
    """The prompt extends the row, but the row would exceed its maximum length."""


@dataclass(frozen=True)
class PrefixMismatch:
    """Where and why a call's prompt diverges from the row with which it shares the longest prefix."""

    reason: Reason
    position: int
    """Length of the shared prefix, also the index of the first token that differs; 0 if packing is disabled."""
    length: int
    """Length of the row, prompt and response, in tokens."""
    expected: int | None = None
    """The row's token at `position`; None if the prompt repeats the whole row or packing is disabled."""
    found: int | None = None
    """The prompt's token at `position`; None as for `expected`, or if the prompt ends there."""


@dataclass
class TrainingSample:
    """A training row. Invariant: response_ids, mask and logprobs have the same length."""

    prompt_ids: "array[int]"
    response_ids: "array[int]" = field(default_factory=lambda: array("i"))
    """Sampled tokens, and the prompt tokens between the calls."""
    mask: "array[int]" = field(default_factory=lambda: array("b"))
    """1 for sampled tokens, else 0."""
    logprobs: "array[float]" = field(default_factory=lambda: array("f"))
    """Log-probabilities of sampled tokens, as sampled; 0.0 elsewhere."""
    calls: list[Call] = field(default_factory=list)
    mismatch: PrefixMismatch | None = None
    """Why the row does not continue an earlier one; None for the first row of a trajectory."""

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Start and length of each call's tokens in `response_ids`."""
        before = len(self.prompt_ids)
        return [(len(call.prompt_ids) - before, len(call.response_ids)) for call in self.calls]


def pack(calls: Sequence[Call], *, limit: int) -> list[TrainingSample]:
    """Pack the calls of one trajectory into rows.

    A packed response has at most `limit` tokens; only a single call may exceed that. With a limit of 0, every call is a
    row.
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


def longest_prompt(prompt: int, response: int, reply: int, *, packed: bool) -> int:
    """Return the most tokens of a prompt whose reply may have `reply` tokens.

    A packed row has room for `prompt` + `response` tokens, of which a later turn's prompt may take all but its reply's.
    Otherwise every prompt begins a row, and has its own budget.
    """
    return prompt + (response - reply if packed else 0)


def first_difference(known: "array[int]", found: "array[int]") -> int | None:
    """Return the index of the first token of `known` that `found` does not repeat; None if it repeats all."""
    if found[: len(known)] == known:
        return None
    shorter = min(len(known), len(found))
    differs = np.asarray(known)[:shorter] != np.asarray(found)[:shorter]
    return int(differs.argmax()) if differs.any() else shorter


def _length(row: TrainingSample) -> int:
    return len(row.prompt_ids) + len(row.response_ids)


def _continues(call: Call, row: TrainingSample, limit: int) -> bool:
    """Return whether a call's prompt repeats the whole row, and the row has room for the call."""
    first, prompt = len(row.prompt_ids), call.prompt_ids
    fits = limit and len(prompt) - first + len(call.response_ids) <= limit
    return bool(fits) and prompt[:first] == row.prompt_ids and prompt[first : _length(row)] == row.response_ids


def _broken(rows: Sequence[TrainingSample], call: Call, limit: int) -> PrefixMismatch | None:
    """Return why `call` continues none of `rows`; None if there are no rows."""
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
