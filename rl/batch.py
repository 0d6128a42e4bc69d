"""The training batch of a step, without verl: rows of trajectories, credit of their calls, and a digest of both.

A trajectory's calls may lie in several rows; verl names a row {question}_{session}_{row}, where a session is one
trajectory.

The digest is of what decides an update: the ids, masks and log-probabilities of every row that counts, with the
advantage and weight of each of its calls. It depends neither on the order in which rollouts ended nor on the random
names that verl gives them. Two runs whose steps have the same digests have trained on the same.
"""

import hashlib
import struct
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from agentflow.rl.algorithms.algorithm import Algorithm, Rollout
from agentflow.rl.packing import TrainingSample, pack
from agentflow.rl.rollout import RolloutStatus, Trajectory

Facts = dict[str, Any]
"""What the trainer is told of a row, beside its tokens."""


class Span(NamedTuple):
    """The tokens of one call in a row's response, and their credit."""

    start: int
    length: int
    advantage: float
    weight: float
    """Weight of each token in the objective."""


DIGITS = 32
"""Of a digest, which is of SHA-256: the fastest where processors have instructions for it."""


def counts(trajectory: Trajectory, *, mask_cut_off: bool) -> bool:
    """Whether a trajectory is trained on."""
    cut_off = mask_cut_off and trajectory.cut_off
    return trajectory.status == RolloutStatus.OK and not cut_off and bool(trajectory.calls)


def rows_of(trajectory: Trajectory, *, pack_turns: bool, limit: int) -> list[TrainingSample]:
    """The rows of a trajectory's calls; `limit` is most tokens of a packed row's response."""
    return pack(trajectory.calls, limit=limit if pack_turns else 0)


def facts_of(row: TrainingSample, trajectory: Trajectory, name: str, *, counted: bool) -> Facts:
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
    }


def assign_credit(
    rows: Mapping[str, Facts], rewards: Mapping[str, float], algorithm: Algorithm
) -> dict[str, list[Span]]:
    """The calls of each row with their credit; rows that are left out of training are absent.

    Args:
        rows: By name, what the trainer is told of each row.
        rewards: By the same names, of the row's trajectory.
        algorithm: Assigns advantages and weights.
    """
    sessions: dict[str, list[str]] = defaultdict(list)
    for key, row in rows.items():
        if row["counted"]:
            sessions[session_of(key)].append(key)
    # In the order of their names, not in that in which they ended: sums of floats depend on it.
    ordered = sorted(sessions, key=lambda session: (str(rows[sessions[session][0]]["name"]), session))
    rollouts = [_rollout(session, sessions[session], rows, rewards) for session in ordered]
    found: dict[str, list[Span]] = {}
    for session, credit in zip(ordered, algorithm.credit(rollouts), strict=True):
        keys = sessions[session]
        for key in keys:
            spans = zip(rows[key]["spans"], rows[key]["places"], strict=True)
            found[key] = [Span(start, length, *credit[place]) for (start, length), place in spans]
    return found


def _rollout(session: str, keys: Sequence[str], rows: Mapping[str, Facts], rewards: Mapping[str, float]) -> Rollout:
    """A trajectory as the algorithm sees it; its calls in order, from whichever rows they are in."""
    calls = sorted(
        (place, length, fault)
        for key in keys
        for (_, length), place, fault in zip(rows[key]["spans"], rows[key]["places"], rows[key]["faults"], strict=True)
    )
    return Rollout(
        group=question_of(session),
        reward=rewards[keys[0]],
        lengths=[length for _, length, _ in calls],
        turn_rewards=rows[keys[0]]["turn_rewards"],
        faults=[fault for _, _, fault in calls],
    )


def matters(credit: Sequence[Span], *, regularised: bool) -> bool:
    """Whether a row has a part in the update. Without a KL or entropy term, a call whose advantage is 0 has none."""
    return any(span.weight and (span.advantage or regularised) for span in credit)


def session_of(key: str) -> str:
    """The trajectory that a row is of."""
    return key.rsplit("_", 1)[0]


def question_of(session: str) -> str:
    """The group that a trajectory is of."""
    return session.rsplit("_", 1)[0]


def advantages_of(rows: Mapping[str, Facts], credit: Mapping[str, Sequence[Span]]) -> dict[str, list[float]]:
    """The advantage of each call of each rollout that is trained on, by the rollout's id."""
    found: dict[str, dict[int, float]] = defaultdict(dict)
    for key, spans in credit.items():
        for place, span in zip(rows[key]["places"], spans, strict=True):
            found[rows[key]["name"]][place] = span.advantage
    return {name: [by_place[place] for place in sorted(by_place)] for name, by_place in found.items()}


def batch_digest(rows: Mapping[str, Facts], credit: Mapping[str, Sequence[Span]]) -> str:
    """Of all rows that have credit, by their facts: `DIGITS` hexadecimal digits."""
    lines = sorted(
        f"{rows[key]['name']} {rows[key]['digest']} {[tuple(span) for span in spans]!r}"
        for key, spans in credit.items()
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:DIGITS]


def _digest(row: TrainingSample, reward: float) -> str:
    found = hashlib.sha256(struct.pack("<d", reward))
    for part in (row.prompt_ids, row.response_ids, row.mask, row.logprobs):
        found.update(len(part).to_bytes(8, "little"))
        found.update(part)
    return found.hexdigest()[:DIGITS]
