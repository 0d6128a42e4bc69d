from pathlib import Path

import pytest

from benchmarks.ways import Point, at, difference, points, pooled
from tests.trainings import begin, rollout, write_step, write_validation


def test_a_validation_comes_after_the_tokens_of_its_step(tmp_path: Path) -> None:
    out = begin(tmp_path, 2)

    def tries(step: int, *rewards: float) -> None:
        write_validation(out, step, [rollout(step, "test", f"t{n // 2}", one) for n, one in enumerate(rewards)])

    tries(0, 0, 0, 1, 1)
    write_step(out, 1, [rollout(1, "train", "t", 1.0)])
    tries(2, 1, 0, 1, 1)  # logged before the step that it comes after
    write_step(out, 2, [rollout(2, "train", "t", 1.0)])
    before, after = points(out)
    assert (before.step, before.tokens, before.accuracy) == (0, 0, 0.5)
    assert (after.step, after.tokens, after.accuracy, after.pass_at_k) == (2, 100, 0.75, 1.0)
    assert (before.margin, after.margin) == (pytest.approx(0.98), pytest.approx(0.49))


def test_accuracy_is_read_between_validations() -> None:
    figures = (0, 0, 0.4), (5, 1000, 0.6), (10, 3000, 0.7)
    curve = [Point(step, tokens, 1.0, {"q": [accuracy]}, 1.0) for step, tokens, accuracy in figures]
    assert [at(curve, tokens) for tokens in (0, 500, 1000, 2000, 3000)] == pytest.approx([0.4, 0.5, 0.6, 0.65, 0.7])
    with pytest.raises(ValueError, match="around 3001"):
        at(curve, 3001)


def test_seeds_are_pooled_question_by_question() -> None:
    one, two = (
        Point(5, 1000, 1.0, {"p": [0, 0], "q": [1, 0]}, 0.5),
        Point(5, 2000, 2.0, {"p": [1, 0], "q": [1, 1]}, 1.0),
    )
    both = pooled([one, two])
    assert (both.step, both.tokens, both.minutes, both.accuracy) == (5, 1500, 1.5, 0.5)
    assert both.pass_at_k == 0.75
    assert both.rewards == {"p": [0, 0, 1, 0], "q": [1, 0, 1, 1]}
    less, low, high = difference(two, one)
    assert low < less < high
    assert less == 0.5
