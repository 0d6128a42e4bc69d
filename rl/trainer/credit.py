"""From the rows of a step and their rewards to the advantage and weight of every call in them.

A trajectory's calls may lie in several rows; verl names a row {question}_{session}_{row}, where a session is one
trajectory.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from agentflow.rl.credit import turn_advantages
from agentflow.rl.flow_grpo import advantages, token_weights
from agentflow.rl.forks import Place, fork_credit
from agentflow.rl.settings import FlowSettings

Credit = list[tuple[int, int, float, float]]
"""Of a row: where each call's tokens begin, how many there are, their advantage, the weight of each."""


def assign_credit(
    rows: Mapping[str, Mapping[str, Any]], rewards: Mapping[str, float], flow: FlowSettings
) -> dict[str, Credit]:
    """Each row's calls with their advantages and weights; rows that are left out of training are absent.

    Args:
        rows: By name, what the agent loop said of each row.
        rewards: By the same names, of the row's trajectory.
        flow: How credit is given.
    """
    counted = {key: row for key, row in rows.items() if row["counted"]}
    reward_of = {session_of(key): rewards[key] for key in counted}
    earned_of = {session_of(key): row["turn_rewards"] for key, row in counted.items()}
    calls = [
        (key, span, place, fault)
        for key, row in counted.items()
        for span, place, fault in zip(row["spans"], row["places"], row["faults"], strict=True)
    ]
    sessions = [session_of(key) for key, *_ in calls]
    lengths = [length for _, (_, length), _, _ in calls]
    if flow.credit == "fork":
        advantage, shares = _by_fork(counted, reward_of, earned_of, flow)
        weights = [
            shares[session][place] / length
            for session, (_, _, place, _), length in zip(sessions, calls, lengths, strict=True)
        ]
    else:
        advantage = _advantages(reward_of, earned_of, sessions, flow)
        weights = token_weights(sessions, lengths, averaging=flow.averaging).tolist()
    credit: dict[str, Credit] = defaultdict(list)
    for (key, (start, length), place, fault), weight in zip(calls, weights, strict=True):
        own = float(advantage[session_of(key)][place])
        credit[key].append((start, length, own - flow.penalty * fault, weight))
    return dict(credit)


def matters(credit: Sequence[tuple[int, int, float, float]], *, regularised: bool) -> bool:
    """Whether a row has a part in the update. Without a KL or entropy term, a call whose advantage is 0 has none."""
    return any(weight and (advantage or regularised) for _, _, advantage, weight in credit)


def session_of(key: str) -> str:
    """The trajectory that a row is of."""
    return key.rsplit("_", 1)[0]


def _advantages(
    reward_of: Mapping[str, float], earned_of: Mapping[str, list[float]], sessions: list[str], flow: FlowSettings
) -> dict[str, list[float]]:
    """Of each trajectory, the advantage of every call. By trajectory, what calls earned is part of its reward."""
    if flow.credit == "turn":
        groups = [question_of(session) for session in reward_of]
        by_turn = turn_advantages(list(reward_of.values()), list(earned_of.values()), groups)
        return {session: found.tolist() for session, found in zip(reward_of, by_turn, strict=True)}
    population = list(reward_of) if flow.statistics == "trajectory" else sessions
    found = advantages(
        [reward_of[session] + sum(earned_of[session]) for session in population],
        [question_of(session) for session in population],
        [True] * len(population),
        baseline=flow.baseline,
        scale=flow.scale,
    )
    by_session = dict(zip(population, found.tolist(), strict=True))
    return {session: [by_session[session]] * len(earned) for session, earned in earned_of.items()}


def _by_fork(
    counted: Mapping[str, Mapping[str, Any]],
    reward_of: Mapping[str, float],
    earned_of: Mapping[str, list[float]],
    flow: FlowSettings,
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Of each trajectory, the advantage and weight of every call; 0 for those that it was told and that are not its."""
    told = {session_of(key): (str(row["trunk"]), int(row["given"])) for key, row in counted.items()}
    found = fork_credit(
        [Place(question_of(session), *told[session]) for session in reward_of],
        [len(earned_of[session]) for session in reward_of],
        [reward + sum(earned_of[session]) for session, reward in reward_of.items()],
        scale=flow.scale,
    )
    advantage, shares = {}, {}
    for session, own in zip(reward_of, found, strict=True):
        advantage[session] = [0.0] * told[session][1] + [value for value, _ in own]
        shares[session] = [0.0] * told[session][1] + [share for _, share in own]
    return advantage, shares


def question_of(session: str) -> str:
    """The group that a trajectory is of."""
    return session.rsplit("_", 1)[0]
