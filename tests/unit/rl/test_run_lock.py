"""Two trainings on one folder."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("hydra")

from agentflow.cli import app
from agentflow.rl.run_lock import run_lock
from agentflow.rl.settings import SettingsError
from tests.failing import fails

HOLDER = """
import sys
from pathlib import Path
from agentflow.cli import app
from agentflow.rl.run_lock import run_lock
with run_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_second_is_refused_at_once_and_told_who_holds_the_folder(tmp_path: Path) -> None:
    with run_lock(tmp_path / "run"), pytest.raises(SettingsError) as refused, run_lock(tmp_path / "run"):
        pass
    line = str(refused.value)
    assert "\n" not in line
    assert str(tmp_path / "run") in line
    assert re.search(rf"\b{os.getpid()}\b", line)


def test_the_same_folder_by_another_name_is_the_same_folder(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "run")
    with run_lock(tmp_path / "run"), pytest.raises(SettingsError), run_lock(tmp_path / "link"):
        pass


def test_other_folders_train_side_by_side(tmp_path: Path) -> None:
    with run_lock(tmp_path / "one"), run_lock(tmp_path / "two"):
        pass


@pytest.mark.process
def test_a_folder_is_free_when_its_training_ends_or_is_killed(tmp_path: Path) -> None:
    with run_lock(tmp_path):
        pass
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with fails(SettingsError, "locked", holder.pid), run_lock(tmp_path):
            pass
        holder.kill()
    with run_lock(tmp_path):
        pass


def test_a_training_command_is_refused_before_it_writes_anything(tmp_path: Path) -> None:
    pytest.importorskip("verl")
    with run_lock(tmp_path / "run"):
        done = CliRunner().invoke(app, ["train", f"out={tmp_path / 'run'}", "steps=1"])
    assert done.exit_code == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert str(os.getpid()) in done.stderr
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["train.lock"]
