"""Workers that are forks of a template."""

import json
import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentflow.rl.trainer.worker_template import JOB, MODULES, worker_template

pytestmark = pytest.mark.process

WORKER = """
import json, os, sys
facts = {"argv": sys.argv[1:], "set": os.environ.get("SET"), "folder": os.getcwd(), "parent": os.getppid()}
imported = "verl" in sys.modules
from ray import ObjectRef
print(json.dumps({**facts, "imported": imported, "id": ObjectRef.from_random().hex()}))
"""


@pytest.fixture(scope="module")
def executable() -> Iterator[str]:
    """The launcher of workers that have verl."""
    with worker_template({}, MODULES) as found:
        yield found


def worker(executable: str, folder: Path, *, job: str = JOB) -> dict[str, Any]:
    """Run a worker until its standard output is closed; what it says of itself."""
    script = folder / "worker.py"
    script.write_text(WORKER)
    done = subprocess.run(
        [*shlex.split(executable), str(script), "one", "two words"],
        env={**os.environ, "RAY_JOB_ID": job, "SET": "here"},
        cwd=folder,
        capture_output=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["argv"] == ["one", "two words"]
    assert (found["set"], found["folder"]) == ("here", str(folder))
    return found


def test_workers_are_forks_with_a_command_line_an_environment_and_streams_of_their_own(
    executable: str, tmp_path: Path
) -> None:
    first, second = worker(executable, tmp_path), worker(executable, tmp_path)
    assert first["imported"]
    assert first["parent"] == second["parent"] != os.getpid()
    # With equal ids of two calls, Ray's check "erased == 1" ended the server of the policy.
    assert first["id"] != second["id"]
    assert not worker(executable, tmp_path, job="02000000")["imported"], "that of another job starts by itself"


def test_workers_start_by_themselves_when_the_template_has_died(tmp_path: Path) -> None:
    with worker_template({}, ["a_module_that_does_not_exist"]) as executable:
        assert not worker(executable, tmp_path)["imported"]
