"""The fork server: a single-threaded, trusted process that forks a child per program.

Requests arrive on a socket inherited from the host. A request is a message with the limits and four descriptors: a
report socket, the program and its files, its standard output and its standard error. Reports are JSON. The child sends
{"started": true} once it is confined. At the end the server sends {"status": ...}, with "stopped" if it had to stop the
program, or {"failed": ...} if the program never started. When the host closes its end of the report socket for writing,
the program is killed. When the host ends, the server and its programs end too. The server never reads a program's
output, and a program holds none of these descriptors.

Programs share nothing. A child first closes every inherited descriptor, requests beyond the slots stay in the socket,
and a failure is reported only for the program concerned.

Only the standard library is imported at start, so that the first program need not wait; see `libraries`.
"""

import fcntl
import gc
import json
import os
import resource
import selectors
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn

from agentflow.tools.sandbox import folder, libraries, program
from agentflow.tools.sandbox.confine import WORK, Surroundings, confine, own_folder_works
from agentflow.tools.sandbox.limits import SLOTS, Limits

_TICK = 0.01
"""Seconds between checks of the programs' folders, where the kernel does not limit them. A program can exceed its limit
by as much as it can write in that time.
"""
_LARGEST_REQUEST = 1 << 16
_REPORT, _SOURCE = 3, 4
_PLACES = (_REPORT, _SOURCE, 1, 2)
"""Descriptors of a child until the program runs, in the order of the request."""
_HIGHEST = 1 << 12
"""A number above every descriptor of a server, which has a few per slot."""


@dataclass(eq=False)
class _Run:
    """A running program."""

    process: int
    """Its pidfd, which can never refer to another process."""
    pid: int
    report: socket.socket
    slot: int
    limits: Limits
    folder: str
    stopped: str = ""


class ForkServer:
    """Serves requests from `control` until that socket is closed."""

    def __init__(self, control: socket.socket, surroundings: Surroundings) -> None:
        self._control = control
        self._surroundings = surroundings
        self._free = list(range(SLOTS))
        self._running: list[_Run] = []
        self._selector = selectors.DefaultSelector()
        self._listen()

    def serve(self) -> NoReturn:
        """Serve requests. Does not return: the process exits."""
        while True:
            watches = bool(self._running) and not (self._surroundings.own_mounts or self._surroundings.own_folder)
            for key, _ in self._selector.select(_TICK if watches else None):
                key.data()
            if watches:
                self._watch_folders()

    def _listen(self) -> None:
        self._selector.register(self._control, selectors.EVENT_READ, self._accept)

    def _accept(self) -> None:
        message, descriptors, _, _ = socket.recv_fds(self._control, _LARGEST_REQUEST, 4)
        if not message:
            os._exit(0)  # the kernel then ends the programs: `die_with_parent`
        try:
            self._start(message, descriptors)
        except Exception as error:  # any failure concerns this program only
            if descriptors:
                _report(descriptors[0], {"failed": f"{type(error).__name__}: {error}"})
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _start(self, message: bytes, descriptors: list[int]) -> None:
        """Fork the program. If that fails, raise an error and leave nothing behind."""
        if len(descriptors) < 4:
            raise OSError("the fork server has no descriptors left")
        request = json.loads(message)
        libraries.load(request["libraries"])
        gc.freeze()  # a collection in a child would copy every page that it visits
        limits = Limits(**request["limits"])
        slot = self._free[0]
        path = WORK if self._surroundings.own_mounts else self._create_folder(slot)
        server = os.getpid()
        try:
            report = socket.socket(fileno=os.dup(descriptors[0]))
            try:
                pid = os.fork()
                if pid == 0:
                    self._become(server, limits, path, slot, descriptors)
                run = _Run(_pidfd(pid), pid, report, slot, limits, path)
            except OSError:
                report.close()
                raise
        except OSError:
            self._remove_folder(path)
            raise
        self._free.remove(slot)
        self._running.append(run)
        self._selector.register(run.process, selectors.EVENT_READ, partial(self._ended, run))
        self._selector.register(run.report, selectors.EVENT_READ, partial(self._stop, run, "host"))
        if not self._free:
            self._selector.unregister(self._control)  # requests wait in the socket until a slot is free

    def _create_folder(self, slot: int) -> str:
        first = self._surroundings.first_user
        user = None if first is None or self._surroundings.files_as_root else first + slot
        return folder.create(self._surroundings.folders, user)

    def _remove_folder(self, path: str) -> None:
        if not self._surroundings.own_mounts:
            with suppress(OSError):  # the host removes the rest with the parent folder
                folder.remove(path)

    def _become(self, server: int, limits: Limits, path: str, slot: int, descriptors: list[int]) -> NoReturn:
        """Confine this process, the forked child, and run the program in it."""
        status = 1
        try:
            _keep_only(descriptors)
        except BaseException:  # the report socket may be closed
            os._exit(1)
        try:
            with open(_SOURCE, encoding="utf-8") as file:
                files = json.load(file)
            # What a program may expect. The host's environment never reaches the server.
            os.environ["HOME"] = os.environ["TMPDIR"] = path
            confine(self._surroundings, limits, path, slot, server)
            _report(_REPORT, {"started": True})
        except BaseException as error:  # the program must not run after any failure
            _report(_REPORT, {"failed": f"{type(error).__name__}: {error}"})
            os._exit(1)
        try:
            os.close(_REPORT)
            _forget_server()
            status = program.main(files)
        finally:
            os._exit(status)

    def _stop(self, run: _Run, why: str) -> None:
        if run in self._running and not run.stopped:
            run.stopped = why
            self._selector.unregister(run.report)
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(run.process, signal.SIGKILL)

    def _watch_folders(self) -> None:
        for run in self._running:
            if folder.exceeds(run.folder, run.limits) or folder.hides(run.pid, run.folder, run.limits):
                self._stop(run, "disk")

    def _ended(self, run: _Run) -> None:
        _, status = os.waitpid(run.pid, 0)
        self._running.remove(run)
        self._selector.unregister(run.process)
        if not run.stopped:
            self._selector.unregister(run.report)
        os.close(run.process)
        self._remove_folder(run.folder)
        end = {"status": os.waitstatus_to_exitcode(status), "stopped": run.stopped}
        with run.report:
            _report(run.report.fileno(), end)
        if not self._free:
            self._listen()
        self._free.append(run.slot)


def _pidfd(pid: int) -> int:
    """Return a pidfd of a child. On OSError the child is killed and the error raised."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise


def _report(descriptor: int, message: dict[str, Any]) -> None:
    with suppress(OSError):  # the host may have closed its end
        os.write(descriptor, json.dumps(message).encode())


def _keep_only(descriptors: list[int]) -> None:
    """Move these descriptors to their places and close all others, most of which belong to other programs."""
    kept = sorted(descriptors)
    for low, high in zip([2, *kept], [*kept, _HIGHEST], strict=True):
        os.closerange(low + 1, high)
    copies = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, kept[-1] + 1) for descriptor in descriptors]
    for place, copy in zip(_PLACES, copies, strict=True):
        os.dup2(copy, place)
    os.closerange(max(_PLACES) + 1, _HIGHEST)


def _forget_server() -> None:
    """Make Python look freshly started: remove the server's modules and reseed numpy's random numbers."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "agentflow"]:
        del sys.modules[name]
    sys.orig_argv[:] = [sys.executable, program.NAME]
    if random := sys.modules.get("numpy.random"):
        random.seed()  # unlike the standard library's generator, it is not reseeded after a fork


def main() -> NoReturn:
    """Start the server. Arguments: the descriptor of the control socket, and `Surroundings` as JSON."""
    descriptor, surroundings = sys.argv[1:3]
    control = socket.socket(fileno=os.dup(int(descriptor)))  # a low number, regardless of what the host had open
    os.close(int(descriptor))
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    sys.path.pop(0)  # the path to this package
    libraries.load(["traceback"])  # for programs that fail
    around = Surroundings(**json.loads(surroundings))
    if not around.own_mounts:
        around = replace(around, own_folder=own_folder_works(around.folders, around))
    control.send(b"ready")
    ForkServer(control, around).serve()
