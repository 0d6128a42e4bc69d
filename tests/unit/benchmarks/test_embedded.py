"""Kinds of answers of the embedded model."""

import pytest

from agentflow.rl.micro import declining
from benchmarks.embedded import kind


@pytest.mark.parametrize(
    ("answer", "gold", "expected"),
    [
        ("21", "21", "right"),
        (" 21\n", "21", "right"),
        ("20", "21", "wrong"),
        ("Paris", "", "answered"),
        (declining.REPLY, "21", "declined"),
        (declining.REPLY, "", "declined"),
    ],
)
def test_an_answer_is_right_wrong_declined_or_without_a_gold_answer(answer: str, gold: str, expected: str) -> None:
    assert kind(answer, gold) == expected
