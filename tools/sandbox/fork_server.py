"""The fork server: one single-threaded, trusted process that forks a child per program.

It is asked over a socket, inherited from the host: a message with the limits, and four descriptors (the program's text,
its output, its errors, a socket to report on). It answers there with JSON: {"started": true}, and in the end
{"status": ...}, with "stopped" if it had to stop the program, or {"failed": ...} if the sandbox itself failed. When the
host closes its end of that socket for writing, the program is killed; when the host is gone, so are server and
programs. What a program writes is never read here, and a program holds none of these descriptors.

The standard library alone is imported at start, so that the first program need not wait; see `libraries`.
"""

import gc
import json
import os
import selectors
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

from agentflow.tools.sandbox import folder, libraries, program
from agentflow.tools.sandbox.confine import WORK, Surroundings, confine
from agentflow.tools.sandbox.limits import Limits

SLOTS = 64
"""Programs at a time."""

_TICK = 0.01
"""Seconds between looks at the folders of programs, where the kernel does not limit them: what a program can write in
that time, it can have too much."""
_LARGEST_REQUEST = 1 << 16


@dataclass(eq=False)
class _Run:
    """A program that runs."""

    process: int
    """A descriptor of it (pidfd), which cannot come to mean another process."""
    pid: int
    report: socket.socket
    slot: int
    limits: Limits
    folder: str
    stopped: str = ""


class ForkServer:
    """Serves requests from `control` until that is closed."""

    def __init__(self, control: socket.socket, surroundings: Surroundings) -> None:
        self._control = control
        self._surroundings = surroundings
        self._running: set[_Run] = set()
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ, self._accept)

    def serve(self) -> NoReturn:
        """Does not return: the process ends."""
        while True:
            watched = self._running and not self._surroundings.own_mounts
            for key, _ in self._selector.select(_TICK if watched else None):
                key.data()
            if watched:
                self._watch_folders()

    def _accept(self) -> None:
        message, descriptors, _, _ = socket.recv_fds(self._control, _LARGEST_REQUEST, 4)
        if not message:
            os._exit(0)  # and the kernel ends the programs: `die_with_parent`
        request = json.loads(message)
        report = socket.socket(fileno=descriptors.pop())
        try:
            self._start(request, descriptors, report)
        except OSError as error:
            _send(report, {"failed": str(error)})
            report.close()
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _start(self, request: dict[str, Any], descriptors: list[int], report: socket.socket) -> None:
        libraries.load(request["libraries"])
        gc.freeze()  # a collection in a child would copy every page that it looks at
        limits = Limits(**request["limits"])
        slot = min(set(range(SLOTS)).difference(run.slot for run in self._running))
        path = WORK if self._surroundings.own_mounts else self._create_folder(slot)
        pid = os.fork()
        if pid == 0:
            self._become(limits, path, slot, descriptors, report)
        run = _Run(os.pidfd_open(pid), pid, report, slot, limits, path)
        self._running.add(run)
        self._selector.register(run.process, selectors.EVENT_READ, partial(self._ended, run))
        self._selector.register(report, selectors.EVENT_READ, partial(self._stop, run, "host"))
        _send(report, {"started": True})

    def _create_folder(self, slot: int) -> str:
        first = self._surroundings.first_user
        user = None if first is None or self._surroundings.files_as_root else first + slot
        return folder.create(self._surroundings.folders, user)

    def _become(self, limits: Limits, path: str, slot: int, descriptors: list[int], report: socket.socket) -> NoReturn:
        """In the child: confines itself, then is the program."""
        status = 1
        try:
            source, *outputs = descriptors
            with open(source, encoding="utf-8", closefd=False) as file:
                text = file.read()
            for target, descriptor in enumerate(outputs, start=1):
                os.dup2(descriptor, target)
            _set_environment(path)
            confine(self._surroundings, limits, path, slot)
        except BaseException as error:  # whatever it is, the program must not run
            _send(report, {"failed": f"{type(error).__name__}: {error}"})
            os._exit(1)
        try:
            os.closerange(3, 1 << 16)
            _forget_server()
            status = program.main(text)
        finally:
            os._exit(status)

    def _stop(self, run: _Run, why: str) -> None:
        if run in self._running and not run.stopped:
            run.stopped = why
            signal.pidfd_send_signal(run.process, signal.SIGKILL)
            self._selector.unregister(run.report)

    def _watch_folders(self) -> None:
        for run in self._running:
            if folder.exceeds(run.folder, run.limits):
                self._stop(run, "disk")

    def _ended(self, run: _Run) -> None:
        _, status = os.waitpid(run.pid, 0)
        self._running.discard(run)
        self._selector.unregister(run.process)
        if not run.stopped:
            self._selector.unregister(run.report)
        os.close(run.process)
        if not self._surroundings.own_mounts:
            with suppress(OSError):  # the rest goes when the host removes the folder of all folders
                folder.remove(run.folder)
        _send(run.report, {"status": os.waitstatus_to_exitcode(status), "stopped": run.stopped})
        run.report.close()


def _send(report: socket.socket, message: dict[str, Any]) -> None:
    with suppress(OSError):  # the host may not be interested any more
        report.send(json.dumps(message).encode())


def _set_environment(path: str) -> None:
    """What a program may expect to find; the host's environment never gets as far as the server."""
    os.environ["HOME"] = os.environ["TMPDIR"] = path


def _forget_server() -> None:
    """A program sees Python as freshly started: nothing of the server, random numbers of its own."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "agentflow"]:
        del sys.modules[name]
    sys.orig_argv[:] = [sys.executable, program.NAME]
    if random := sys.modules.get("numpy.random"):
        random.seed()  # unlike the standard library's, it does not notice a fork


def main() -> NoReturn:
    """Arguments: the descriptor of the control socket, `Surroundings` as JSON."""
    descriptor, surroundings = sys.argv[1:3]
    control = socket.socket(fileno=int(descriptor))
    sys.path.pop(0)  # where the host found this package
    libraries.load(["traceback"])  # for programs that fail
    control.send(b"ready")
    ForkServer(control, Surroundings(**json.loads(surroundings))).serve()
