import pytest

from tests import capabilities
from tests.integration.durability import postgres


def test_a_bare_machine_lacks_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capabilities.shutil, "which", lambda name: None)
    monkeypatch.setattr(postgres, "binaries", lambda: None)
    extras = {"one": ["pytest>=1"], "two": ["pytest", "no-such-package[more]>=2"], "gpu": ["no-such-package"]}
    monkeypatch.setattr(capabilities, "PROJECT", {"optional-dependencies": extras})
    programs = [f"apt install {name}" for name in ("bubblewrap", "chromium", "postgresql")]
    assert list(capabilities.missing()) == [*programs, "pip install -e '.[two]'"]
