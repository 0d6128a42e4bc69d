"""Rollouts in waves: who waits for whom, who is spared, and that no signal is lost."""

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.rl.flow_grpo import advantages
from agentflow.rl.waves import Group, sampled
from tests.waiting import LAST_RESORT


async def run(rewards: Sequence[float | None], waves: Sequence[int]) -> list[int]:
    """The rollouts that were sampled, of a group that would have had these rewards."""
    group, done = Group(waves, len(rewards)), []

    async def rollout(number: int) -> None:
        reward = None
        try:
            if await group.begins(number):
                await asyncio.sleep(0)
                done.append(number)
                reward = rewards[number]
        finally:
            await group.ended(number, reward)

    # The last one asks first.
    await asyncio.wait_for(asyncio.gather(*map(rollout, reversed(range(len(rewards))))), timeout=LAST_RESORT)
    return sorted(done)


@pytest.mark.parametrize(
    ("rewards", "waves", "expected"),
    [
        ([1, 0, 1, 1], [2], [0, 1]),
        ([1, 1, 0, 1], [2], [0, 1, 2, 3]),
        ([1, 1, 1, 0, 1, 1, 1, 1], [2, 4], [0, 1, 2, 3]),
        ([1, 1, 1, 1, 1, 1, 1, 1], [2, 4], list(range(8))),
        ([None, 1, 0, 1], [2], [0, 1, 2, 3]),
        ([1, 0], [], [0, 1]),
    ],
)
async def test_a_wave_is_sampled_while_nothing_is_decided(
    rewards: list[float | None], waves: list[int], expected: list[int]
) -> None:
    assert await run(rewards, waves) == expected


async def test_a_rollout_that_breaks_off_does_not_stop_its_group() -> None:
    group = Group([1], 2)
    await group.ended(0, None)
    assert await group.begins(1)


REWARDS = st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=12)
WAVES = st.lists(st.integers(2, 11), max_size=3, unique=True).map(sorted)


@given(REWARDS, WAVES)
def test_no_group_loses_its_signal(rewards: list[float], waves: list[int]) -> None:
    number = sampled(rewards, waves)
    assert len(asyncio.run(run(rewards, waves))) == number
    whole = advantages(rewards, ["q"] * len(rewards), [True] * len(rewards))
    part = advantages(rewards[:number], ["q"] * number, [True] * number)
    assert bool(whole.any()) == bool(part.any())


@given(REWARDS, st.floats(-2, 2), st.floats(-2, 2))
def test_only_a_questions_weight_depends_on_how_many_were_sampled(
    rewards: list[float], success: float, failure: float
) -> None:
    """k (m - k) / m times the difference of the mean scores, as the module says."""
    m, k = len(rewards), sum(rewards)
    centred = advantages(rewards, ["q"] * m, [True] * m, scale="none")
    gradient = centred @ np.where(np.array(rewards) == 1, success, failure)
    assert gradient == pytest.approx(k * (m - k) / m * (success - failure), abs=1e-9)
