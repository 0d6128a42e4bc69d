"""The server's side, in this process: whatever goes wrong with one program is reported to that one alone."""

import json
import os
import socket
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from agentflow.tools.sandbox import fork_server
from agentflow.tools.sandbox.confine import Surroundings
from agentflow.tools.sandbox.fork_server import ForkServer
from agentflow.tools.sandbox.limits import Limits

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fork server is Linux's")


def fails(*_: object) -> Any:
    raise OSError(24, "Too many open files")


class Host:
    """The host's end of a server without a process of its own."""

    def __init__(self, folders: Path) -> None:
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        surroundings = Surroundings(
            own_mounts=False, own_tmp=False, readable=["/"], first_user=None, files_as_root=False, folders=str(folders)
        )
        self.server = ForkServer(theirs, surroundings)

    def ask(self, descriptors: int = 4) -> socket.socket:
        """Sends a request that comes with as many descriptors; returns what reports on it."""
        report, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        report.settimeout(30)
        with theirs, open(os.devnull, "r+b") as null:
            files = [theirs.fileno(), *[null.fileno()] * (descriptors - 1)][:descriptors]
            request = json.dumps({"limits": asdict(Limits()), "libraries": []}).encode()
            socket.send_fds(self.control, [request], files)
        return report

    def accepted(self, descriptors: int = 4) -> dict[str, Any]:
        """The first report on a program that the server has tried to start."""
        with self.ask(descriptors) as report:
            self.server._accept()
            return dict(json.loads(report.recv(1 << 16)))


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path)
    yield made
    for end in (made.control, made.server._control, made.server._selector):
        end.close()


@pytest.mark.parametrize("call", ["fork", "pidfd_open", "dup"])
def test_a_program_that_cannot_be_started_leaves_nothing(
    call: str, host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, forked, fork = os.listdir("/proc/self/fd"), list[int](), os.fork

    def forks() -> int:
        forked.append(fork())
        return forked[-1]

    with monkeypatch.context() as patched:
        patched.setattr(os, "fork", forks)
        patched.setattr(os, call, fails)
        assert "failed" in host.accepted()
    assert (host.server._running, len(host.server._free)) == ([], fork_server.SLOTS)
    assert os.listdir(tmp_path) == []
    assert os.listdir("/proc/self/fd") == before
    for pid in forked:
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, 0)


@pytest.mark.parametrize("descriptors", [1, 2, 3])
def test_descriptors_that_did_not_arrive(host: Host, descriptors: int) -> None:
    """The kernel drops them in silence where the server has none left."""
    assert "failed" in host.accepted(descriptors)


def test_a_request_without_any(host: Host) -> None:
    with host.ask(0) as report:
        host.server._accept()
        assert report.recv(1) == b""


def test_beyond_the_slots_requests_wait(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host.server, "_free", [0])
    first, second = host.ask(), host.ask()
    host.server._accept()
    assert host.server._free == []
    assert host.server._control not in [key.fileobj for key in host.server._selector.get_map().values()]
    [running] = host.server._running
    host.server._stop(running, "host")
    host.server._ended(running)
    assert host.server._control in [key.fileobj for key in host.server._selector.get_map().values()]
    host.server._accept()
    [running] = host.server._running
    host.server._stop(running, "host")
    host.server._ended(running)
    for report in (first, second):
        with report:
            last = [json.loads(message) for message in iter(lambda report=report: report.recv(1 << 16), b"")][-1]
            assert last["stopped"] == "host"
