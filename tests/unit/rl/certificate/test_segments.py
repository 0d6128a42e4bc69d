"""Which steps a replay repeats."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.rl.certificate.errors import CertificateError
from agentflow.rl.certificate.segments import Segment, segments_of
from tests.failing import fails


@pytest.mark.parametrize(
    ("chosen", "checkpoints", "segments"),
    [
        ([1], [1, 2], [(0, 1)]),
        ([2, 1], [1, 2], [(0, 1), (1, 2)]),
        ([3], [10, 20], [(0, 10)]),
        ([3, 5, 11], [10, 20], [(0, 10), (10, 20)]),
        ([22, 24], [10, 20], [(20, 24)]),
        ([4], [], [(0, 4)]),
        ([], [1], []),
    ],
)
def test_a_step_is_repeated_from_the_checkpoint_before_to_the_one_after(
    chosen: list[int], checkpoints: list[int], segments: list[tuple[int, int]]
) -> None:
    assert segments_of(chosen, checkpoints, 24) == segments


@pytest.mark.parametrize("step", [0, 25])
def test_a_step_that_was_not_certified_is_refused(step: int) -> None:
    with fails(CertificateError, "unknown_step", step):
        segments_of([step], [], 24)


@given(st.sets(st.integers(1, 24)), st.sets(st.integers(1, 24)))
def test_every_chosen_step_is_repeated_once_and_between_neighbouring_checkpoints(
    chosen: set[int], checkpoints: set[int]
) -> None:
    found = segments_of(chosen, checkpoints, 24)
    steps = [step for segment in found for step in segment.steps]
    assert len(steps) == len(set(steps))
    assert chosen <= set(steps)
    for begin, end in found:
        assert begin in {0, *checkpoints}
        assert not checkpoints & set(Segment(begin, end - 1).steps)
