"""Waiting for another thread, and giving the others time to be waited for."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from agentflow.rl.micro.engine import Engine


def wait_for(condition: Callable[[], bool]) -> None:
    """Return when `condition` holds; fail after half a minute."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def slow(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each token take a while: on a busy machine a request could end before anyone had seen it run."""
    step = engine._model.step

    def late(*arguments: Any) -> Any:
        time.sleep(0.05)
        return step(*arguments)

    monkeypatch.setattr(engine._model, "step", late)
