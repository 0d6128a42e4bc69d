"""Training batch of a step, independent of verl: rows of rollouts, credit of their calls, and a digest of both.

The calls of a rollout may be in several rows. verl names a row {question}_{session}_{row}, where a session is one
rollout.

The digest covers all inputs of an update: the ids, masks and log-probabilities of every row that is trained on, with
the advantage and weight of each of its calls. It depends neither on the order in which rollouts ended nor on the random
names that verl gives them. Two runs whose steps have equal digests have trained on the same data.
"""

import hashlib
import math
import struct
from array import array
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from agentflow.rl.algorithms.algorithm import Algorithm, RolloutFacts
from agentflow.rl.algorithms.signal import groups_with_signal
from agentflow.rl.rollout.packing import TrainingSample
from agentflow.rl.rollout.rollout import Rollout, RolloutStatus, rewarded
from agentflow.tools.coded_error import Cause

Facts = dict[str, Any]
"""Data of a row for credit assignment, beside its tokens."""


class CallSpan(NamedTuple):
    """Position of one call's tokens in a row's response, and their credit."""

    start: int
    length: int
    advantage: float
    weight: float
    """Weight of each token in the objective."""


DIGITS = 32
"""Hexadecimal digits of a digest. SHA-256 is the fastest hash on processors with instructions for it."""


def counts(rollout: Rollout, *, mask_cut_off: bool, count_as_zero: Collection[Cause]) -> bool:
    """Return whether a rollout is trained on."""
    cut_off = mask_cut_off and rollout.cut_off
    return rewarded(rollout.status, count_as_zero) and not cut_off and bool(rollout.calls)


def parts_of(rollout: Rollout, name: str) -> list[tuple[Rollout, str]]:
    """Return a rollout with its name, after the attempts that it gave up: one more rollout of its task, of reward 0."""
    if not (number := len(rollout.given_up)):
        return [(rollout, name)]
    calls, faults = list(rollout.given_up), [True] * number
    failed = replace(rollout, calls=calls, faults=faults, status=RolloutStatus.POLICY_FAILED, reward=0.0)
    return [(failed, f"{name} given up"), (rollout, name)]


def facts_of(row: TrainingSample, rollout: Rollout, name: str, *, counted: bool) -> Facts:
    """Return the positions of a row's calls, and the inputs of their credit.

    `name` is the name of the rollout, the same in every repetition of the run.
    """
    position = {call.turn: position for position, call in enumerate(rollout.calls)}
    places = [position[call.turn] for call in row.calls]
    return {
        "name": name,
        "digest": _digest(row, rollout.reward),
        # In single precision, as verl's `rm_scores`, which give all rows of a session, those of given-up attempts too,
        # the reward of the last.
        "reward": array("f", [rollout.reward])[0],
        "counted": counted,
        "spans": row.spans,
        "places": places,
        "faults": [rollout.faults[place] for place in places],
        "nodes": [call.node for call in row.calls],
        "surprise": [-sum(call.logprobs) for call in row.calls],
    }


def assign_credit(rows: Mapping[str, Facts], algorithm: Algorithm) -> dict[str, list[CallSpan]]:
    """Assign credit to the calls of each row, by its name; rows that are excluded from training are absent."""
    rows = {key: row for key, row in rows.items() if row["counted"]}
    sessions = _sessions(rows)
    rollouts = [_facts(session, keys, rows) for (_, session), keys in sessions.items()]
    found: dict[str, list[CallSpan]] = {}
    for keys, credit in zip(sessions.values(), algorithm.credit(rollouts), strict=True):
        by_place = dict(zip(sorted(place for key in keys for place in rows[key]["places"]), credit, strict=True))
        for key in keys:
            spans = zip(rows[key]["spans"], rows[key]["places"], strict=True)
            found[key] = [CallSpan(start, length, *by_place[place]) for (start, length), place in spans]
    return found


def signal_of(rows: Mapping[str, Facts]) -> dict[str, float]:
    """Return the share of groups that have a signal, over the rollouts that are trained on."""
    sessions = _sessions({key: row for key, row in rows.items() if row["counted"]})
    rewards = ((question_of(session), rows[keys[0]]["reward"]) for (_, session), keys in sessions.items())
    return {"groups_with_signal": groups_with_signal(rewards).value}


def _sessions(rows: Mapping[str, Facts]) -> dict[tuple[str, str], list[str]]:
    """Return the rows of each part of a session, by its name and the session.

    They are ordered by name and not by completion: sums of floats depend on the order.
    """
    sessions: dict[tuple[str, str], list[str]] = defaultdict(list)
    for key, row in rows.items():
        sessions[str(row["name"]), session_of(key)].append(key)
    return dict(sorted(sessions.items()))


def _facts(session: str, keys: Sequence[str], rows: Mapping[str, Facts]) -> RolloutFacts:
    """Build the algorithm's input for a rollout, with the calls of the rows `keys` in order."""
    calls = sorted(
        (place, length, fault)
        for key in keys
        for (_, length), place, fault in zip(*(rows[key][name] for name in ("spans", "places", "faults")), strict=True)
    )
    return RolloutFacts(
        group=question_of(session),
        reward=rows[keys[0]]["reward"],
        lengths=[length for _, length, _ in calls],
        faults=[fault for *_, fault in calls],
    )


def matters(credit: Sequence[CallSpan], *, regularised: bool) -> bool:
    """Return whether a row affects the update. Without a KL or entropy term, calls with advantage 0 do not."""
    return any(span.weight and (span.advantage or regularised) for span in credit)


def mini_batches(rows: Mapping[str, Facts], keys: Sequence[str], *, updates: int | None, size: int) -> list[list[str]]:
    """Divide rows among the optimiser updates of a step, by trajectory: however its turns are packed, all are in one.

    The trajectories are dealt out in the order of their names, so that those of a question are in different updates.

    There are as many `updates`, or fewer if there are fewer trajectories; with None, `size` is the most trajectories of
    an update.
    """
    trajectories: dict[str, list[str]] = defaultdict(list)
    # Ordered by name and not by completion, because sums of floats depend on the order.
    for key in sorted(keys, key=lambda key: (rows[key]["name"], key)):
        trajectories[rows[key]["name"]].append(key)
    dealt, number = list(trajectories.values()), updates or math.ceil(len(trajectories) / size)
    return [[key for one in dealt[start::number] for key in one] for start in range(min(number, len(dealt)))]


def rows_with_padding(parts: Sequence[Sequence[str]], *, ranks: int, multiple: int) -> int:
    """Return the rows of a step with padding: the same number for each update and rank, a multiple of `multiple`."""
    longest = max(map(len, parts))
    return len(parts) * ranks * multiple * math.ceil(longest / (ranks * multiple))


def session_of(key: str) -> str:
    """Return the session (rollout) of a row name."""
    return key.rsplit("_", 1)[0]


def question_of(session: str) -> str:
    """Return the question (group) of a session name."""
    return session.rsplit("_", 1)[0]


def advantages_of(rows: Mapping[str, Facts], credit: Mapping[str, Sequence[CallSpan]]) -> dict[str, list[float]]:
    """Return the advantages of the calls of each rollout that is trained on, by rollout id."""
    found: dict[str, dict[int, float]] = defaultdict(dict)
    for key, spans in credit.items():
        for place, span in zip(rows[key]["places"], spans, strict=True):
            found[rows[key]["name"]][place] = span.advantage
    return {name: [by_place[place] for place in sorted(by_place)] for name, by_place in found.items()}


def batch_digest(rows: Mapping[str, Facts], credit: Mapping[str, Sequence[CallSpan]]) -> str:
    """Return the digest of all rows that have credit, as `DIGITS` hexadecimal digits."""
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
