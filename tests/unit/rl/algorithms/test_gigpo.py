"""GiGPO: calls in the same state are compared with each other, and nothing else changes Flow-GRPO."""

from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.rl.algorithms import algorithm_of
from agentflow.rl.algorithms.algorithm import Rollout
from tests.unit.rl.algorithms.rollouts import ROLLOUTS, rollout

FLOW, GIGPO = (algorithm_of({"name": name}) for name in ("flow-grpo", "gigpo"))


@given(ROLLOUTS)
def test_without_shared_states_or_weight_it_is_flow_grpo(rollouts: list[Rollout]) -> None:
    number = count()
    apart = [replace(one, states=[str(next(number)) for _ in one.lengths]) for one in rollouts]
    assert GIGPO.credit(apart) == FLOW.credit(rollouts)
    assert algorithm_of({"name": "gigpo", "omega": 0}).credit(rollouts) == FLOW.credit(rollouts)


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=8))
def test_a_single_call_is_compared_twice_with_the_same_others(rewards: list[float]) -> None:
    rollouts = [rollout(reward) for reward in rewards]
    twice = [[2 * one[0].advantage] for one in FLOW.credit(rollouts)]
    found = [[one[0].advantage] for one in GIGPO.credit(rollouts)]
    assert np.allclose(np.array(found), np.array(twice))


@given(ROLLOUTS)
def test_the_comparisons_within_a_state_add_up_to_nothing(rollouts: list[Rollout]) -> None:
    mixed = [replace(one, states=[f"{place % 2}" for place in range(len(one.lengths))]) for one in rollouts]
    added: dict[tuple[str, str], float] = {}
    for one, credit, plain in zip(mixed, GIGPO.credit(mixed), FLOW.credit(mixed), strict=True):
        for state, call, other in zip(one.states, credit, plain, strict=True):
            added[one.group, state] = added.get((one.group, state), 0.0) + call.advantage - other.advantage
    assert list(added.values()) == pytest.approx([0] * len(added), abs=1e-6)


def test_the_choice_in_a_shared_state_is_told_apart_from_the_others_of_its_trajectory() -> None:
    """All trajectories begin alike; what the first two do in state "b" makes the difference."""
    found = GIGPO.credit(
        [
            rollout(1.0, lengths=[1, 1], states=["a", "b"]),
            rollout(0.0, lengths=[1, 1], states=["a", "b"]),
            rollout(1.0, lengths=[1, 1], states=["a", "c"]),
            rollout(1.0, lengths=[1, 1], states=["a", "c"]),
        ]
    )
    plain = FLOW.credit([rollout(reward, lengths=[1, 1]) for reward in (1.0, 0.0, 1.0, 1.0)])
    added = [
        [call.advantage - other.advantage for call, other in zip(*pair, strict=True)]
        for pair in zip(found, plain, strict=True)
    ]
    assert added[0][1] == pytest.approx(np.sqrt(0.5), abs=1e-5)
    assert added[1][1] == pytest.approx(-np.sqrt(0.5), abs=1e-5)
    assert added[2][1] == added[3][1] == 0


def test_a_later_success_is_discounted() -> None:
    """From the same state, one trajectory was right at once and one after two more calls."""
    soon, late = GIGPO.credit(
        [rollout(1.0, states=["a"]), rollout(1.0, lengths=[1, 1, 1], states=["a", "b", "c"])],
    )
    assert soon[0].advantage > 0 > late[0].advantage
    assert [call.advantage for call in late[1:]] == [0, 0]
