"""The server's side, in this process: a program that cannot be started is reported to its host, and leaves nothing."""

import json
import os
import socket
import sys
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from agentflow.tools.sandbox import fork_server
from agentflow.tools.sandbox.confine import Surroundings
from agentflow.tools.sandbox.fork_server import ForkServer
from agentflow.tools.sandbox.limits import Limits

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fork server is Linux's")

REQUEST = json.dumps({"limits": asdict(Limits()), "libraries": []}).encode()


def fails(*_: object) -> Any:
    raise OSError(24, "Too many open files")


def pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


@pytest.mark.parametrize("fault", ["fork", "pidfd_open", "dup", "descriptors"])
def test_a_program_that_cannot_be_started_leaves_nothing(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that fails, or descriptors that the kernel drops in silence where the server has none left."""
    host, theirs = pair()
    surroundings = Surroundings(
        own_mounts=False, own_tmp=False, readable=["/"], first_user=None, files_as_root=False, folders=str(tmp_path)
    )
    server, forked, fork = ForkServer(theirs, surroundings), list[int](), os.fork

    def forks() -> int:
        forked.append(fork())
        return forked[-1]

    with host, closing(server._control), closing(server._selector):
        before, (report, reporting) = os.listdir("/proc/self/fd"), pair()
        with report, monkeypatch.context() as patched:
            with reporting, open(os.devnull, "r+b") as null:
                socket.send_fds(
                    host, [REQUEST], [reporting.fileno(), *[null.fileno()] * (3 if fault != "descriptors" else 0)]
                )
            patched.setattr(os, "fork", forks)
            if fault != "descriptors":
                patched.setattr(os, fault, fails)
            server._accept()
            report.settimeout(30)
            assert "failed" in json.loads(report.recv(1 << 16))
        assert (server._running, len(server._free)) == ([], fork_server.SLOTS)
        assert os.listdir(tmp_path) == []
        assert os.listdir("/proc/self/fd") == before
    for pid in forked:
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, 0)
