"""The alarm: each cause from the figures that show it, and none from those of a training that learns."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.rl.run.alarm import MAX_EXACT_DRIFT, RULES, Cause, alarm
from tests.cases import table

WELL: dict[str, float] = {
    "reward": 0.5,
    "fault_rate": 0.1,
    "entropy": 0.2,
    "reply_tokens": 30.0,
    "drift": 1e-6,
    "logprob_change": 0.02,
}
"""Figures of a step of a training that is well."""


def steps(number: int, *more: tuple[str, float], **changed: list[float]) -> list[dict[str, Any]]:
    """Lines of steps; a changed figure has its values in the last steps, and stays as it is before."""
    lines = [{"step": step, "split": "train", **WELL, **dict(more)} for step in range(1, number + 1)]
    for name, values in changed.items():
        for line, value in zip(lines[number - len(values) :], values, strict=True):
            line[name] = value
    return lines


def validation(step: int, accuracy: float) -> dict[str, Any]:
    return {"step": step, "split": "test", "accuracy": accuracy}


SHOWN = {
    Cause.MISMATCH: steps(2, drift=[0.2, 0.2]),
    Cause.STALE: steps(6, drift=[5e-4, 0.12, 0.3]),
    Cause.LEARNING_RATE: steps(3, logprob_change=[0.9]),
    Cause.TEMPLATE: steps(1, fault_rate=[0.9]),
    Cause.TOOL: steps(6, fault_rate=[0.5, 0.6]),
    Cause.LEFT_OUT: steps(3, left_out=[0.6, 0.7]),
    Cause.ENTROPY: steps(8, entropy=[0.1, 0.02, 0.01]),
    Cause.LENGTH: steps(8, reply_tokens=[60.0, 70.0]),
    Cause.HACKING: [validation(0, 0.5), *steps(7, reward=[0.8, 0.9]), validation(7, 0.3)],
}


MORE = table(__file__, "alarms.txt")
"""A cause, the number of steps, a figure of all steps, and figures of the last ones."""


@pytest.mark.parametrize(
    ("cause", "lines"),
    [
        *SHOWN.items(),
        *((cause and Cause[cause], steps(number, *more.items(), **changed)) for cause, number, more, changed in MORE),
        # A validation on a machine that was too busy says nothing.
        (None, [*SHOWN[Cause.HACKING][:-1], {**validation(7, 0.3), "lost": "7 of 8 tries ran out of time"}]),
        # What was not measured raises no alarm.
        (None, []),
        (None, [{"step": step, "split": "train", "reward": 0.0} for step in range(1, 9)]),
    ],
)
def test_causes_and_figures_that_show_none(cause: Cause | None, lines: list[dict[str, Any]]) -> None:
    raised = alarm(lines)
    assert (raised and raised.cause, raised and raised.remedy) == (cause, cause and RULES[cause][1])


@pytest.mark.parametrize("lines", SHOWN.values(), ids=SHOWN)
def test_a_cause_is_named_as_soon_as_its_figures_show_it(lines: list[dict[str, Any]]) -> None:
    assert alarm(lines[:-1]) is None


@given(st.integers(0, 20), st.floats(0, 1), st.floats(0.07, 0.4))
def test_a_training_that_learns_is_well(number: int, reward: float, entropy: float) -> None:
    rising = [0.4 + 0.6 * reward * step / 20 for step in range(number)]
    settling = [0.2 - (0.2 - entropy) * step / 20 for step in range(number)]
    lines = steps(number, reward=rising, entropy=settling)
    assert alarm([validation(0, 0.4), *lines, validation(number, 0.45)]) is None


def test_engines_in_single_precision_agree_to_more_digits() -> None:
    lines = steps(4, drift=[2e-3, 2e-3, 2e-3, 2e-3])
    assert alarm(lines) is None
    raised = alarm(lines, MAX_EXACT_DRIFT)
    assert raised
    assert raised.cause == Cause.MISMATCH
