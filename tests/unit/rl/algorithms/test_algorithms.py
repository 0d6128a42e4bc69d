"""Every algorithm: what holds for all of them, and each by hand."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from agentflow.rl.algorithms import NAMES, algorithm_of
from agentflow.rl.algorithms.algorithm import Credit, RolloutFacts
from agentflow.rl.algorithms.sft import SFT


def rollout(
    reward: float, *, group: str = "q", lengths: Sequence[int] = (1,), faults: Sequence[bool] = ()
) -> RolloutFacts:
    return RolloutFacts(group, reward, lengths, faults or [False] * len(lengths))


ROLLOUTS = st.lists(
    st.builds(
        rollout,
        st.sampled_from([0.0, 0.25, 1.0]),
        group=st.sampled_from("abc"),
        lengths=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    ),
    min_size=1,
    max_size=12,
)

REWARDS = [1.0, 0.0, 1.0, 0.0]
CALLS = [2, 1, 3, 2]
FOUR = [rollout(reward, lengths=[1] * calls) for reward, calls in zip(REWARDS, CALLS, strict=True)]

COMPARING = tuple(name for name in NAMES if name != "sft")
"""Algorithms whose advantages compare rollouts."""


# ---------------------------------------------------------------- all of them


@pytest.mark.parametrize(
    "wrong", [{}, {"name": "ppo"}, {"name": "grpo", "penalty": -1}, {"name": "grpo", "clip": 1}, {"name": ["grpo"]}]
)
def test_other_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        algorithm_of(wrong)


@pytest.mark.parametrize("name", COMPARING)
@given(ROLLOUTS)
def test_every_call_has_credit_and_all_weights_sum_to_one(name: str, rollouts: list[RolloutFacts]) -> None:
    credit = algorithm_of({"name": name}).credit(rollouts)
    assert [len(of) for of in credit] == [len(one.lengths) for one in rollouts]
    total = sum(
        length * one.weight
        for of, each in zip(credit, rollouts, strict=True)
        for one, length in zip(of, each.lengths, strict=True)
    )
    assert total == pytest.approx(1)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_has_no_credit(name: str) -> None:
    assert algorithm_of({"name": name}).credit([]) == []


# ---------------------------------------------------------------- by hand


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("flow-grpo", [0.866, -0.866, 0.866, -0.866]),  # half over the standard deviation 0.57735
        ("grpo", [0.725, -1.208, 0.725, -1.208]),  # of 1 1, 0, 1 1 1, 0 0: mean 5/8, deviation 0.5175
    ],
)
def test_four_trajectories_of_one_question(name: str, expected: list[float]) -> None:
    """Rewards 1, 0, 1, 0 with 2, 1, 3 and 2 calls. The reference normalised Flow-GRPO over calls (its bug T3)."""
    first = [credit[0].advantage for credit in algorithm_of({"name": name}).credit(FOUR)]
    assert first == pytest.approx(expected, abs=1e-3)


def test_weights_by_hand() -> None:
    """Calls of 2 and 3 tokens, and of 4: 1/(2*2*2), 1/(2*2*3) and 1/(2*1*4); or 1/9 for each token."""
    rollouts = [rollout(1.0, lengths=[2, 3]), rollout(0.0, lengths=[4])]
    flow, token = (algorithm_of({"name": name}).weights(rollouts) for name in ("flow-grpo", "grpo"))
    assert flow == [[1 / 8, 1 / 12], [1 / 8]]
    assert token == [[1 / 9, 1 / 9], [1 / 9]]


def test_accepted_rollouts_are_imitated_but_for_their_faults() -> None:
    rollouts = [
        rollout(1.0, lengths=[2, 7, 3], faults=[False, True, False]),
        rollout(0.0, lengths=[9]),
        rollout(0.5),
    ]
    left_out, chosen = Credit(0.0, 0.0), Credit(1.0, 1 / 5)
    assert SFT(penalty=0.3).credit(rollouts) == [[chosen, left_out, chosen], [left_out], [left_out]]
    assert SFT().credit(rollouts[1:]) == [[left_out], [left_out]]
    assert [calls[0].advantage for calls in SFT(accept=0.5).credit(rollouts)] == [1.0, 0.0, 1.0]
