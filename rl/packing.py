"""Calls of a trajectory as rows to train on, several in one row wherever they share their tokens.

The planner's prompt only ever grows: a turn's prompt is the last turn's prompt, what was sampled for it, and what came
of it. Where that holds id by id, the turns are one sequence, whose beginning is computed once instead of once a turn.
Where it does not (a tool result was shortened, the text of a reply tokenises differently from how it was sampled), a
new row begins; the result is the same, and costs more.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from agentflow.rl.trace import Call


@dataclass
class Row:
    """One sequence. Invariant: response_ids, mask and logprobs have the same length."""

    prompt_ids: list[int]
    response_ids: list[int]
    """What was sampled, with what the prompts added between the calls."""
    mask: list[int]
    """1 where a token was sampled, else 0."""
    logprobs: list[float]
    """Of sampled tokens; 0.0 elsewhere."""
    calls: list[Call] = field(default_factory=list)

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Where each call's tokens begin in `response_ids`, and how many there are."""
        before = len(self.prompt_ids)
        return [(len(call.prompt_ids) - before, len(call.response_ids)) for call in self.calls]


def pack(calls: Sequence[Call], *, limit: int) -> list[Row]:
    """The rows of one trajectory's `calls`; none has a response of more than `limit` tokens, unless one call has."""
    rows: list[Row] = []
    for call in calls:
        added = _added(rows[-1], call) if rows else None
        if added is None or len(rows[-1].response_ids) + len(added) + len(call.response_ids) > limit:
            rows.append(Row(call.prompt_ids, [], [], []))
            added = []
        row = rows[-1]
        row.response_ids.extend([*added, *call.response_ids])
        row.mask.extend([0] * len(added) + [1] * len(call.response_ids))
        row.logprobs.extend([0.0] * len(added) + list(call.logprobs))
        row.calls.append(call)
    return rows


def _added(row: Row, call: Call) -> list[int] | None:
    """What `call`'s prompt adds to the row's tokens; None if it does not begin with them."""
    before = len(row.prompt_ids)
    known = before + len(row.response_ids)
    if call.prompt_ids[:before] != row.prompt_ids or call.prompt_ids[before:known] != row.response_ids:
        return None
    return call.prompt_ids[known:]
