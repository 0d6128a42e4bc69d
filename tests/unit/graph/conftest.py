"""Models whose replies a test writes."""

from collections.abc import Callable

import pytest

from tests.scripted import Reply, Scripted


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Scripted]:
    def install(**replies: Reply) -> Scripted:
        script = Scripted(**replies)
        script.install(monkeypatch)
        return script

    return install
