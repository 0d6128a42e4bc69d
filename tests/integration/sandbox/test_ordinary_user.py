"""The Landlock tier's promises where the kernel cannot set a quota on a folder: what docs/security.md says of them."""

import json
import platform
import sys

import pytest

from agentflow.tools.sandbox.limits import Limits
from tests.pages import ROOT
from tests.processes import python
from tests.sandboxes import server

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="the filter uses a system call by its number"
)


def outcome(program: str) -> dict[str, str]:
    """Return the outcome of a program of an ordinary user."""
    server("landlock")
    done = python("-m", "tests.integration.sandbox.ordinary_user", program, cwd=ROOT, check=True)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def test_a_folder_that_the_server_cannot_list_stops_the_program() -> None:
    """A folder that cannot be read counts as over the limit."""
    found = outcome(
        "import os, signal\nos.mkdir('d', 0o300)\nopen('d/file', 'wb').write(bytes(1 << 20))\nsignal.pause()"
    )
    assert (found["tier"], found["stopped"]) == ("landlock", "disk")


def test_the_limit_on_threads_is_above_all_tasks_of_the_system() -> None:
    """The kernel counts every task of the user, so that a limit of 64 would often allow none."""
    found = outcome("import resource\nprint(*resource.getrlimit(resource.RLIMIT_NPROC), resource.RLIM_INFINITY)")
    soft, hard, infinity = map(int, found["stdout"].split())
    assert soft == hard
    assert soft != infinity
    assert soft > Limits().threads
