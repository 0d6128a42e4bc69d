"""Groups that have a signal."""

import pytest

from agentflow.rl.algorithms.signal import groups_with_signal


@pytest.mark.parametrize(
    ("rewards", "expected", "share"),
    [
        ([], (0, 0), 0.0),
        ([("q", 1.0), ("equal", 1.0), ("q", 0.0), ("equal", 1.0), ("alone", 0.0)], (1, 2), 0.5),
    ],
)
def test_groups_whose_rewards_differ(rewards: list[tuple[str, float]], expected: tuple[int, int], share: float) -> None:
    found = groups_with_signal(rewards)
    assert (found, found.value) == (expected, share)
