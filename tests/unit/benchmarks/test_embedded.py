"""Kinds of answers of the embedded model."""

import pytest

from agentflow.rl.micro import declining
from benchmarks.embedded import QUESTIONS, kind


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


def test_every_sum_has_a_gold_answer_and_no_other_question_has_one() -> None:
    golds = {
        name: [line.partition("\t")[2] for line in (QUESTIONS / f"{name}.txt").read_text(encoding="utf-8").splitlines()]
        for name in ("elementary", "off_topic")
    }
    assert len(golds["elementary"]) == 20
    assert all(golds["elementary"])
    assert len(golds["off_topic"]) == 200
    assert not any(golds["off_topic"])
