"""The simulation of asynchronous training."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.staleness import per_hour

SECONDS = st.lists(st.floats(0.1, 100), min_size=4, max_size=4)


def test_sampling_and_training_in_turn_takes_the_sum_and_at_once_the_longer_of_both() -> None:
    """Two rollouts of 10 s at once; an update takes 6 s, or 12 s on half of the machine."""
    durations = [[10.0, 10.0]] * 1000
    assert per_hour(durations, 6.0, slots=2, max_staleness=0) == pytest.approx(3600 / 16)
    assert per_hour(durations, 6.0, slots=2, max_staleness=1) == pytest.approx(3600 / 10, rel=0.01)
    assert per_hour(durations, 12.0, slots=2, max_staleness=1) == pytest.approx(3600 / 12, rel=0.01)


def test_a_long_rollout_holds_up_the_next_step_unless_it_has_begun() -> None:
    durations = [[30.0, 10.0, 10.0]] * 1000
    assert per_hour(durations, 0.0, slots=3, max_staleness=0) == pytest.approx(3600 / 30)
    assert per_hour(durations, 0.0, slots=3, max_staleness=1) == pytest.approx(3600 / (50 / 3), rel=0.15)


@given(st.lists(SECONDS, min_size=2, max_size=8), st.floats(0, 50), st.integers(1, 6), st.integers(0, 3))
def test_nothing_is_faster_than_its_rollouts_and_its_updates(
    durations: list[list[float]], update: float, slots: int, bound: int
) -> None:
    hours = len(durations) / per_hour(durations, update, slots, bound)
    assert hours * 3600 >= update * len(durations) - 1e-6
    assert hours * 3600 * slots >= sum(map(sum, durations)) - 1e-6
