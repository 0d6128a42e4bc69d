"""The prompt that asks a person to approve a call."""

import signal
from typing import Any

import pytest
from rich.console import Console

from agentflow.console.approval import ask_for_approval

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no interval timers")


class Terminal(Console):
    """Keeps the interval of the timer, in seconds, during the prompt."""

    interval = 0.0

    def input(self, *_: Any, **__: Any) -> str:
        self.interval = signal.getitimer(signal.ITIMER_REAL)[1]
        return "a"


def test_an_interrupt_between_the_last_look_and_the_read_is_not_lost() -> None:
    """The read is interrupted at intervals, and a timer that the program had goes on afterwards."""
    handler = signal.signal(signal.SIGALRM, signal.SIG_IGN)
    timer = signal.setitimer(signal.ITIMER_REAL, 500, 400)
    try:
        out = Terminal(quiet=True)
        proposal: Any = {"turn": 1, "sub_goal": "", "tool": "base_generator", "arguments": {}, "note": ""}
        assert ask_for_approval(out, proposal).decision == "approve"
        assert 0 < out.interval < 1
        assert signal.getitimer(signal.ITIMER_REAL)[1] == 400
        assert signal.getsignal(signal.SIGALRM) == signal.SIG_IGN
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, handler)
