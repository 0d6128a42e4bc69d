"""The installed command in a process of its own: full disks, closed pipes and signals."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fake_openai import FakeOpenAI, Fault
from tests.waiting import LAST_RESORT, until

COMMAND = [sys.executable, "-m", "agentflow"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full, a full disk")
@pytest.mark.parametrize("call", ["data list", "solve q --model atlas-oracle --json"])
def test_a_full_disk_is_one_line(call: str) -> None:
    with Path("/dev/full").open("w") as full:
        command = [*COMMAND, *call.split()]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=LAST_RESORT, check=False)
    assert (done.returncode, done.stderr) == (1, "error: the disk is full; make room and try again\n")


@pytest.mark.parametrize("call", ["--help", "graph", "solve q --model atlas-oracle"])
def test_a_closed_pipe_ends_the_command_silently(call: str) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [*COMMAND, *call.split()]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, timeout=LAST_RESORT, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("command", ["solve q", "eval atlas --limit 2 --out out"])
def test_an_interruption_ends_the_command_with_one_line_and_an_evaluation_says_how_to_go_on(
    command: str, tmp_path: Path
) -> None:
    with FakeOpenAI(lambda _: Fault.HANG) as server:
        call = [*command.split(), "--model", f"openai-compatible:fake@{server.base_url}"]
        process = subprocess.Popen([*COMMAND, *call], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        until(lambda: server.requests)
        os.kill(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=LAST_RESORT)
    kept = [f"the tries are kept; resume with: agentflow {shlex.join(call)}"] if command.startswith("eval") else []
    assert (process.returncode, errors.splitlines()[-2:]) == (130, [*kept, "interrupted"])
