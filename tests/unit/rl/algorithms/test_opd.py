"""Advantages of on-policy distillation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from agentflow.rl.algorithms.algorithm import RolloutFacts
from agentflow.rl.algorithms.flow_grpo import FlowGRPO
from agentflow.rl.algorithms.opd import OPD, Floats
from tests.unit.rl.algorithms.rollouts import ROLLOUTS, rollout

SHAPE = (2, 5)
LOGPROBS = arrays.arrays(np.float32, SHAPE, elements=st.floats(-30, 0, width=32))
MASKS = arrays.arrays(np.bool_, SHAPE)
NONE = np.zeros(SHAPE, np.float32)


@given(LOGPROBS, LOGPROBS, MASKS)
def test_a_token_that_the_teacher_finds_likelier_is_reinforced(
    student: Floats, teacher: Floats, mask: np.ndarray
) -> None:
    """A token of which both think the same has no advantage."""
    found = OPD().token_advantages(NONE, student, teacher, mask)
    assert (np.sign(found[mask]) == np.sign(teacher - student)[mask]).all()
    assert found.dtype == np.float32


@given(LOGPROBS, LOGPROBS, MASKS)
def test_tokens_outside_the_mask_have_none_whatever_is_there(
    student: Floats, teacher: Floats, mask: np.ndarray
) -> None:
    student[~mask] = np.nan
    assert not OPD().token_advantages(NONE, student, teacher, mask)[~mask].any()


@given(LOGPROBS, LOGPROBS)
def test_packing_does_not_change_a_token(student: Floats, teacher: Floats) -> None:
    """Two rows as one, with a prompt between them, have the advantages of each by itself."""
    every = np.ones(SHAPE, bool)
    apart = OPD().token_advantages(NONE, student, teacher, every)
    packed, given, mask = (np.insert(one.reshape(-1), [5, 5], 0) for one in (student, teacher, every))
    joined = OPD().token_advantages(np.zeros_like(packed), packed, given, mask)
    assert (joined[mask] == apart.reshape(-1)).all()


def test_the_mean_signal_is_the_reverse_divergence() -> None:
    student, teacher = np.array([0.5, 0.25, 0.25]), np.array([0.25, 0.25, 0.5])
    tokens = np.repeat([0, 1, 2], [2, 1, 1])
    logprobs = [np.log(one)[tokens].astype(np.float32) for one in (student, teacher)]
    found = OPD().token_advantages(np.zeros(4, np.float32), *logprobs, np.ones(4, bool))
    assert -found.mean() == pytest.approx((student * np.log(student / teacher)).sum(), abs=1e-6)


@given(ROLLOUTS)
def test_without_a_weight_rewards_and_penalties_have_no_part(rollouts: list[RolloutFacts]) -> None:
    credit = OPD(penalty=0.3).credit(rollouts)
    assert {one.advantage for calls in credit for one in calls} == {0.0}
    total = sum(
        one.weight * length
        for calls, of in zip(credit, rollouts, strict=True)
        for one, length in zip(calls, of.lengths, strict=True)
    )
    assert total == pytest.approx(1)


def test_the_rewards_part_is_flow_grpos_times_the_weight() -> None:
    assert (OPD().compares, OPD(reward_weight=1).compares) == (False, True)
    group = [rollout(1.0, lengths=[1, 1]), rollout(0.0, faults=[True])]
    own, other = OPD(reward_weight=0.5, penalty=0.3).credit(group), FlowGRPO(penalty=0.3).credit(group)
    assert [[one.advantage for one in calls] for calls in own] == [
        [pytest.approx(one.advantage / 2) for one in calls] for calls in other
    ]
