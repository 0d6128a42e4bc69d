import tomllib
from pathlib import Path

import pytest

from tests import capabilities
from tests.capabilities import ELSEWHERE, MODULES, missing
from tests.integration.durability import postgres

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_every_extra_is_probed_or_needed_elsewhere() -> None:
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    assert extras.keys() == MODULES.keys() | ELSEWHERE.keys()


def test_a_bare_machine_lacks_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capabilities.shutil, "which", lambda name: None)
    monkeypatch.setattr(postgres, "binaries", lambda: None)
    monkeypatch.setattr(capabilities, "find_spec", lambda module: None)
    found = {one.name: one.install for one in missing()}
    programs = {"bubblewrap": "bubblewrap", "Chromium": "chromium", "PostgreSQL": "postgresql"}
    assert {name: found[name] for name in programs} == {name: f"apt install {one}" for name, one in programs.items()}
    assert {found[f"the extra {extra}"] for extra in MODULES} == {f"pip install -e '.[{extra}]'" for extra in MODULES}


def test_a_module_of_a_missing_package_is_missing() -> None:
    assert not capabilities._has("no_such_package.sdk")
