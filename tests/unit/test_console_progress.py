"""Lines of a training on a terminal that is none."""

from io import StringIO
from typing import Any

from rich.console import Console

from agentflow.console.progress import TrainView, train_text

VALIDATION = {"step": 2, "split": "test", "accuracy": 0.4, "rollouts": 8, "turns": 2.0, "tool_error_rate": 0.1}
STEP = {
    **{"step": 2, "split": "train", "reward": 0.5, "rollouts": 8, "status/ok": 8, "turns": 2.0},
    **{"tool_error_rate": 0.1, "tokens_per_second": 10.0, "seconds/step": 3.0},
}


def shown(*lines: dict[str, Any]) -> str:
    out = StringIO()
    view = TrainView(Console(file=out, width=200))
    for line in lines:
        view.show(line)
    return out.getvalue()


def test_a_validation_of_several_tries_shows_pass_at_the_number_of_tries() -> None:
    assert "pass@4 0.750" in shown({**VALIDATION, "pass_at": {"2": 0.6, "4": 0.75}})
    assert "pass@" not in shown({**VALIDATION, "pass_at": {}})


def test_a_validation_tells_of_rollouts_that_count_as_wrong_since_they_did_not_end() -> None:
    """On a machine that was too busy, a quarter of a validation timed out, and its line did not say so."""
    assert "91 timed_out" in shown({**VALIDATION, "status/ok": 293, "status/timed_out": 91, "status/crashed": 0})
    assert "timed_out" not in shown({**VALIDATION, "status/ok": 8})
    assert "crashed" not in shown({**VALIDATION, "status/ok": 7, "status/timed_out": 1, "status/crashed": 0})


def test_a_step_shows_the_shares_with_a_signal() -> None:
    text = train_text({**STEP, "groups_with_signal": 0.25, "turns_with_signal": 0.125})
    assert "25.0 % of groups" in text
    assert "12.5 % of turns" in text


def test_what_a_step_does_not_have_is_not_shown_as_zero() -> None:
    assert "KL 0.0012" in train_text({**STEP, "kl": 0.0012})
    assert "KL" not in train_text(STEP)
    supervised = train_text({**STEP, "nll": 0.5, "groups_with_signal": 0.0, "turns_with_signal": 0.0})
    assert "0.5000" in supervised
    assert "of groups" not in supervised


def test_lines_of_an_older_version_are_shown() -> None:
    assert "0.400 of 8 rollouts, 2.00 turns" in shown(VALIDATION)
    assert "of groups" not in train_text(STEP)


def test_an_alarm_is_told_when_it_begins_and_when_its_cause_changes() -> None:
    entropy, length = (
        {**STEP, "alarm": {"cause": cause, "evidence": f"{cause} 7", "remedy": "r"}} for cause in ("entropy", "length")
    )
    text = shown(STEP, entropy, entropy, length, STEP, entropy)
    assert [line.count("alarm") for line in text.splitlines()].count(1) == 3
    assert text.count("entropy 7") == 2
    assert text.count("length 7") == 1
