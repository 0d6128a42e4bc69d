import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentflow.rl.micro.engine import Engine
from tests.unit.rl.micro import checkpoint


@pytest.fixture(scope="session")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random checkpoint; not to be changed."""
    return checkpoint.write(tmp_path_factory.mktemp("checkpoint"))


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Callable[[Engine], None]:
    """Makes each token take a while: on a busy machine a request could end before anyone had seen it run."""

    def slower(engine: Engine) -> None:
        step = engine._model.step

        def late(*arguments: Any) -> Any:
            time.sleep(0.05)
            return step(*arguments)

        monkeypatch.setattr(engine._model, "step", late)

    return slower
