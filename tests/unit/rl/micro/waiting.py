"""An engine that gives others time to see a request run."""

import time
from typing import Any

import pytest

from agentflow.rl.micro.engine import Engine


def slow(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each token take a while: on a busy machine a request could end before anyone had seen it run."""
    step = engine._model.step

    def late(*arguments: Any) -> Any:
        time.sleep(0.05)
        return step(*arguments)

    monkeypatch.setattr(engine._model, "step", late)
