"""Where a turn ends and the next begins is bookkeeping: no estimator may learn something else from it.

The same trajectories are cut into turns in another way, some of them merged, or every turn is there twice; baseline,
advantages and the gradient, as a weight times an advantage for each token, must stay what they were.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.rl.flow_grpo import Averaging, Baseline, Scale, advantages, token_weights

ESTIMATORS: dict[str, tuple[Baseline, Scale]] = {
    "GRPO": ("mean", "std"),
    "Dr. GRPO": ("mean", "none"),
    "RLOO": ("leave-one-out", "none"),
    "REINFORCE++": ("batch", "batch"),
    "REINFORCE++ with a group's baseline": ("mean", "batch"),
}
AVERAGES: tuple[Averaging, ...] = ("trajectory-token", "token")


@dataclass
class Trajectory:
    group: str
    reward: float
    turns: list[int]
    """Sampled tokens of each."""


TRAJECTORIES = st.lists(
    st.builds(
        Trajectory,
        st.sampled_from("ab"),
        st.sampled_from([0.0, 0.25, 1.0]),
        st.lists(st.integers(1, 9), min_size=1, max_size=5),
    ),
    min_size=2,
    max_size=9,
)


def gradient(batch: Sequence[Trajectory], estimator: str, averaging: Averaging) -> list[list[float]]:
    """Of each trajectory, the factor of every token's score, turn after turn."""
    baseline, scale = ESTIMATORS[estimator]
    found = advantages(
        [one.reward for one in batch], [one.group for one in batch], [True] * len(batch), baseline=baseline, scale=scale
    )
    names = [str(position) for position, one in enumerate(batch) for _ in one.turns]
    lengths = [length for one in batch for length in one.turns]
    factors: list[list[float]] = [[] for _ in batch]
    for name, length, weight in zip(names, lengths, token_weights(names, lengths, averaging=averaging), strict=True):
        factors[int(name)] += [float(weight * found[int(name)])] * length
    return factors


@pytest.mark.parametrize("averaging", AVERAGES)
@pytest.mark.parametrize("estimator", ESTIMATORS)
@given(TRAJECTORIES, st.data())
def test_turns_may_be_split_and_merged(
    estimator: str, averaging: Averaging, batch: list[Trajectory], data: st.DataObject
) -> None:
    recut = []
    for one in batch:
        total = sum(one.turns)
        cuts = sorted(data.draw(st.sets(st.integers(1, max(1, total - 1)), max_size=4))) if total > 1 else []
        bounds = [0, *cuts, total]
        recut.append(Trajectory(one.group, one.reward, [b - a for a, b in pairwise(bounds)]))
    before, after = gradient(batch, estimator, averaging), gradient(recut, estimator, averaging)
    for was, now in zip(before, after, strict=True):
        assert now == pytest.approx(was, abs=1e-9)


@pytest.mark.parametrize("averaging", AVERAGES)
@pytest.mark.parametrize("estimator", ESTIMATORS)
@given(TRAJECTORIES)
def test_turns_may_be_there_twice(estimator: str, averaging: Averaging, batch: list[Trajectory]) -> None:
    """Each token is then there twice and has half its factor."""
    doubled = [Trajectory(one.group, one.reward, [*one.turns, *one.turns]) for one in batch]
    before, after = gradient(batch, estimator, averaging), gradient(doubled, estimator, averaging)
    for was, now in zip(before, after, strict=True):
        assert [2 * factor for factor in now[: len(was)]] == pytest.approx(was, abs=1e-9)


def test_statistics_over_turns_are_not_invariant() -> None:
    """What the property is there to catch: a long failure pulls the mean of all turns down."""
    one = advantages([1.0, 0.0], ["q"] * 2, [True] * 2, scale="none")
    rows = advantages([1.0, 0.0, 0.0, 0.0], ["q"] * 4, [True] * 4, scale="none")
    assert one[0] == 0.5
    assert rows[0] == 0.75


def test_reinforce_plus_plus_by_hand() -> None:
    """Rewards 1, 0 and 1, 1: the mean is 3/4, the deviation 1/2; a settled question has something to tell too."""
    found = advantages([1.0, 0.0, 1.0, 1.0], ["q", "q", "p", "p"], [True] * 4, baseline="batch", scale="batch")
    assert found == pytest.approx([0.5, -1.5, 0.5, 0.5], abs=1e-4)
    by_group = advantages([1.0, 0.0, 1.0, 1.0], ["q", "q", "p", "p"], [True] * 4, baseline="mean", scale="batch")
    assert by_group == pytest.approx([1.2247, -1.2247, 0, 0], abs=1e-4)
