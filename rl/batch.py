"""What a step trains on, short of verl: the rows of its trajectories, what is to be known of each, and a digest of all.

The digest is of what decides an update: the ids, masks and log-probabilities of every row that counts, with the
advantage and weight of each of its calls. It depends neither on the order in which rollouts ended nor on the random
names that verl gives them. Two runs whose steps have the same digests have trained on the same.
"""

import hashlib
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agentflow.rl.packing import Row, pack
from agentflow.rl.rollout import Fate, Trajectory

if TYPE_CHECKING:
    from agentflow.rl.trainer.credit import Credit

Facts = dict[str, Any]
"""What the trainer is told of a row, beside its tokens."""

DIGITS = 32
"""Of a digest, which is of SHA-256: the fastest where processors have instructions for it."""


def counts(trajectory: Trajectory, *, mask_cut_off: bool) -> bool:
    """Whether a trajectory is trained on."""
    cut_off = mask_cut_off and trajectory.cut_off
    return trajectory.fate == Fate.OK and not cut_off and bool(trajectory.own_calls)


def rows_of(trajectory: Trajectory, *, pack_turns: bool, limit: int) -> list[Row]:
    """The rows of a trajectory's calls; `limit` is most tokens of a packed row's response."""
    return pack(trajectory.own_calls, limit=limit if pack_turns else 0)


def facts_of(row: Row, trajectory: Trajectory, name: str, *, counted: bool) -> Facts:
    """Where a row's calls are, and what they are credited by. `name` is the trajectory's, the same in every run."""
    position = {call.turn: position for position, call in enumerate(trajectory.calls)}
    places = [position[call.turn] for call in row.calls]
    return {
        "name": name,
        "digest": _digest(row, trajectory.reward),
        "counted": counted,
        "spans": row.spans,
        "places": places,
        "faults": [trajectory.faults[place] for place in places],
        "turn_rewards": trajectory.turn_rewards,
        "trunk": trajectory.trunk,
        "given": trajectory.given,
    }


def batch_digest(rows: Mapping[str, Mapping[str, Any]], credit: "Mapping[str, Credit]") -> str:
    """Of all rows that have credit, by their facts: `DIGITS` hexadecimal digits."""
    lines = sorted(f"{rows[key]['name']} {rows[key]['digest']} {calls!r}" for key, calls in credit.items())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:DIGITS]


def _digest(row: Row, reward: float) -> str:
    found = hashlib.sha256(struct.pack("<d", reward))
    for part in (row.prompt_ids, row.response_ids, row.mask, row.logprobs):
        found.update(len(part).to_bytes(8, "little"))
        found.update(part)
    return found.hexdigest()[:DIGITS]
