"""The alarm: each cause from the figures that show it, and none from those of a training that learns."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.rl.run.alarm import MAX_EXACT_DRIFT, REMEDIES, Cause, alarm
from agentflow.rl.run.training_log import TrainingLog
from tests.trainings import begin, rollout, write_step

WELL: dict[str, float] = {
    "reward": 0.5,
    "fault_rate": 0.1,
    "entropy": 0.2,
    "reply_tokens": 30.0,
    "drift": 1e-6,
    "logprob_change": 0.02,
}
"""Figures of a step of a training that is well."""


def steps(number: int, **changed: list[float]) -> list[dict[str, Any]]:
    """Lines of steps; a changed figure has its values in the last steps, and stays as it is before."""
    lines = [{"step": step, "split": "train", **WELL} for step in range(1, number + 1)]
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
    Cause.ENTROPY: steps(8, entropy=[0.1, 0.02, 0.01]),
    Cause.LENGTH: steps(8, reply_tokens=[60.0, 70.0]),
    Cause.HACKING: [validation(0, 0.5), *steps(7, reward=[0.8, 0.9]), validation(7, 0.3)],
}


@pytest.mark.parametrize("cause", Cause)
def test_a_cause_is_named_as_soon_as_its_figures_show_it(cause: Cause) -> None:
    lines = SHOWN[cause]
    raised = alarm(lines)
    assert raised is not None
    assert (raised.cause, raised.remedy) == (cause, REMEDIES[cause])
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


def test_a_distance_of_half_precision_is_no_staleness_until_it_grows() -> None:
    assert alarm(steps(4, drift=[0.02, 0.05, 0.09, 0.09])) is None
    raised = alarm(steps(4, drift=[0.02, 0.05, 0.11, 0.12]))
    assert raised
    assert raised.cause == Cause.STALE


def test_the_weights_of_a_step_before_are_no_fault_of_a_run_that_samples_with_them() -> None:
    lines = steps(4, drift=[0.01, 0.02, 0.03])
    assert alarm(lines) is not None
    assert alarm([{**line, "staleness": 1.0} for line in lines]) is None
    raised = alarm([{**line, "staleness": 1.0} for line in steps(4, drift=[0.01, 0.12, 0.13])])
    assert raised
    assert raised.cause == Cause.STALE


@pytest.mark.parametrize("name", ["drift", "fault_rate", "reply_tokens"])
def test_one_step_raises_no_alarm_but_that_of_the_learning_rate(name: str) -> None:
    assert alarm(steps(8, **{name: [99.0]})) is None
    assert alarm(steps(8, **{name: [99.0, WELL[name]]})) is None
    assert alarm(steps(8, **{name: [99.0, 99.0]})) is not None
    assert alarm(steps(1, logprob_change=[0.9])) is not None


def test_a_large_update_that_the_policy_survives_raises_no_alarm() -> None:
    """A training with GSPO that went on well had one update of 0.28 nats."""
    assert alarm(steps(4, logprob_change=[0.28, 0.02])) is None
    assert alarm(steps(4, logprob_change=[0.28])) is None
    raised = alarm(steps(4, logprob_change=[0.16, 0.28]))
    assert raised
    assert raised.cause == Cause.LEARNING_RATE


def test_an_entropy_that_rises_shows_a_policy_that_comes_apart() -> None:
    assert alarm(steps(8, entropy=[0.7, 0.8, 0.9])) is None
    assert alarm(steps(8, entropy=[1.2])) is None, "one step may look like anything"
    raised = alarm(steps(8, entropy=[0.7, 1.1, 1.2]))
    assert raised
    assert raised.cause == Cause.ENTROPY


def test_a_kl_divergence_that_rises_at_once_is_the_learning_rate() -> None:
    """A training at seven times the learning rate lost its reward, and no single update of it was large."""
    assert alarm(steps(5, kl=[0.0, 0.02, 0.06, 0.09, 0.18])) is None
    raised = alarm(steps(5, kl=[0.0, 0.02, 0.06, 0.09, 0.27]))
    assert raised
    assert raised.cause == Cause.LEARNING_RATE
    assert alarm(steps(5, kl=[0.0, 0.2, 0.02, 0.02, 0.3])) is None, "it has been as high before"
    assert alarm(steps(1, kl=[9.0])) is None, "a teacher may be far from the start"


def test_what_was_not_measured_raises_no_alarm() -> None:
    assert alarm([]) is None
    bare = [{"step": step, "split": "train", "reward": 0.0} for step in range(1, 9)]
    assert alarm(bare) is None


def test_the_line_of_a_step_has_its_alarm(tmp_path: Any) -> None:
    out = begin(tmp_path, 3)
    log = TrainingLog(out)
    for step, change in enumerate((0.1, 0.9, 0.1), start=1):
        write_step(out, step, [rollout(step, "train", "t", 1.0)], logprob_change=change)
    causes = [line.get("alarm", {}).get("cause") for line in log.lines()]
    assert causes == [None, Cause.LEARNING_RATE, None]
