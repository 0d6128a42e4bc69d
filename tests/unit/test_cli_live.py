"""Calls of `agentflow serve --learn` that cannot work."""

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from agentflow.checks import doctor
from agentflow.rl.live.journal import Journal, VersionDecision
from tests.command_line import call

needs_training = pytest.mark.skipif(not find_spec("verl"), reason="the extra train is not installed")


def refused(folder: Path) -> str:
    """The one line on stderr of a server that is to learn in a folder, and exits with 2."""
    held_out = folder / "held_out.jsonl"
    held_out.write_text(json.dumps({"question": "3 + 4?", "answer": "7"}) + "\n")
    done = call("serve", "--port", 0, "--learn", folder / "live", "--held-out", held_out)
    assert done.exit_code == 2, done.output
    [line] = done.stderr.splitlines()
    return line


def test_without_the_extra_the_command_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was a traceback, since a module of the training was imported before."""
    monkeypatch.setattr(doctor, "training", lambda: ("training", "missing", "needs the extra train"))
    for module in ("hydra", "agentflow.rl.live.learner", "agentflow.rl.settings"):
        monkeypatch.setitem(sys.modules, module, None)
    assert "needs the extra train" in refused(tmp_path)


@needs_training
def test_the_folder_of_a_server_that_runs_is_refused(tmp_path: Path) -> None:
    running = Journal(tmp_path / "live" / "decisions.jsonl", VersionDecision)
    assert "another server" in refused(tmp_path)
    running.close()


@needs_training
def test_a_version_whose_weights_are_gone_is_named(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "live" / "decisions.jsonl", VersionDecision)
    journal.append(VersionDecision(version=1, outcome="promoted", reason=""))
    journal.close()
    assert "versions/1" in refused(tmp_path)
