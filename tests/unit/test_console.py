"""Lines of a training on a terminal that is none, and the prompt that asks a person to approve a call."""

import signal
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from agentflow.console.approval import answer_of_person
from agentflow.console.progress import TrainView, train_text
from agentflow.console.runs import turn_text
from agentflow.graph.state import Verdict
from tests.runs import turn

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


@pytest.mark.parametrize(
    ("line", "says", "says_not"),
    [
        (VALIDATION, ["0.400 of 8 rollouts, 2.00 turns"], ["pass@"]),
        ({**VALIDATION, "pass_at": {"2": 0.6, "4": 0.75}}, ["pass@4 0.750"], []),
        # On a machine that was too busy, a quarter of a validation timed out, and its line did not say so.
        ({**VALIDATION, "status/ok": 293, "status/timed_out": 91, "status/crashed": 0}, ["91 timed_out"], ["crashed"]),
        ({**STEP, "kl": 0.0012}, ["KL 0.0012"], []),
        ({**STEP, "groups_with_signal": 0.25}, ["25.0 % of groups"], []),
        ({**STEP, "nll": 0.5, "groups_with_signal": 0.0}, ["0.5000"], ["of groups"]),
    ],
)
def test_a_line_says_what_there_is(line: dict[str, Any], says: list[str], says_not: list[str]) -> None:
    text = shown(line) if line["split"] == "test" else train_text(line)
    assert ([one for one in says if one not in text], [one for one in says_not if one in text]) == ([], [])


def test_a_validation_is_a_line_every_tenth_where_there_is_no_terminal(tmp_path: Path) -> None:
    out = StringIO()
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "test.jsonl").write_text("{}\n" * 20)
    with TrainView(Console(file=out, width=200)) as view:
        view.begin(SimpleNamespace(out=str(tmp_path), steps=2, validation_rollouts=2))  # type: ignore[arg-type]
        for ended in range(41):
            view.rollouts(0, "test", ended)
            view.rollouts(0, "test", ended)
        view.rollouts(1, "train", 3)
    lines = out.getvalue().splitlines()[1:]
    assert len(lines) == 11
    assert "20 of 40" in lines[5]


@pytest.mark.parametrize(
    ("probability", "shown"), [(None, "verifier: stop"), (0.97, "verifier: stop with probability 0.97")]
)
def test_a_verdict_shows_its_probability(probability: float | None, shown: str) -> None:
    judged = turn(verdict=Verdict(analysis="", signal="stop", probability=probability))
    assert turn_text(judged).plain.splitlines()[-1].strip() == shown


def test_an_alarm_is_told_when_it_begins_and_when_its_cause_changes() -> None:
    entropy, length = (
        {**STEP, "alarm": {"cause": cause, "evidence": f"{cause} 7", "remedy": "r"}} for cause in ("entropy", "length")
    )
    text = shown(STEP, entropy, entropy, length, STEP, entropy)
    assert [line.count("alarm") for line in text.splitlines()].count(1) == 3
    assert text.count("entropy 7") == 2
    assert text.count("length 7") == 1


class Terminal(Console):
    """Keeps the interval of the timer, in seconds, during the prompt."""

    interval = 0.0

    def input(self, *_: Any, **__: Any) -> str:
        self.interval = signal.getitimer(signal.ITIMER_REAL)[1]
        return "a"


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no interval timers")
def test_an_interrupt_between_the_last_look_and_the_read_is_not_lost() -> None:
    """The read is interrupted at intervals, and a timer that the program had goes on afterwards."""
    handler = signal.signal(signal.SIGALRM, signal.SIG_IGN)
    timer = signal.setitimer(signal.ITIMER_REAL, 500, 400)
    try:
        out = Terminal(quiet=True)
        proposal: Any = {"turn": 1, "sub_goal": "", "tool": "base_generator", "arguments": {}, "note": ""}
        assert answer_of_person(out, proposal)["decision"] == "approve"
        assert 0 < out.interval < 1
        assert signal.getitimer(signal.ITIMER_REAL)[1] == 400
        assert signal.getsignal(signal.SIGALRM) == signal.SIG_IGN
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, handler)
