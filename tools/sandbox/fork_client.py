"""The host's side of a fork server: starts it, checks it, sends it programs and follows them.

Calls are blocking and made from one thread per program. All threads and event loops of a process share a server.
"""

import contextlib
import dataclasses
import errno
import json
import os
import selectors
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from typing import IO, Any

from agentflow.tools.sandbox import folder, interpreter, libraries, program, tiers
from agentflow.tools.sandbox.limits import ERRORS_KEPT, NO_FILES, Limits, Outcome, SandboxError, Stopped

_PATIENCE = 120.0
"""Seconds after which a server that is alive but silent is given up. Imports take long on a busy machine."""
_CLOSE_SECONDS = 10.0
_CHUNK = 1 << 16
_MOST_ERRORS = 16 << 20
"""Bytes of standard error after which a program is stopped. Warnings may be many, but reading them costs the host time.
"""
_TICK = 0.05
"""Seconds between checks whether the caller has cancelled."""

_CANARY = """
import os, socket, sys
def escapes(what, *arguments):
    try:
        what(*arguments)
    except OSError:
        return False
    return True
print(6 * 7, [escapes(*attempt) for attempt in (
    (open, {secret!r}), (os.listdir, {folder!r}), (open, {folder!r} + "/new", "w"),
    (os.fork,), (os.execv, sys.executable, ["python"]), (socket.socket,), (os.kill, os.getppid(), 0),
)])
"""
"""A program that tries the most important ways out of the sandbox and prints which succeeded."""
_HELD = f"42 {[False] * 7}"

_SHORTAGE = {errno.EMFILE, errno.ENFILE, errno.ETOOMANYREFS, errno.ENOBUFS, errno.ENOMEM}
"""Errors that pass once other programs release their resources."""


class NotStarted(SandboxError):
    """The sandbox failed before the program started, so that the program can be tried again."""


class ServerEnded(NotStarted):
    """The fork server ended before the program started. Another server can run the program."""


class ForkServerClient:
    """A fork server of one tier, usable from any thread until it ends or is closed."""

    def __init__(self, tier: str) -> None:
        """Start the server. Raises SandboxError, with the reason, if it does not start or does not confine programs."""
        self.tier = tier
        self._folders, self._claim = folder.claim()
        os.chmod(self._folders, 0o711)  # noqa: S103 - programs run as other users and have to reach their folders
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the server
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                self._process = self._launch(theirs.fileno())
            self._wait_until_ready()
            self._try()
        except SandboxError:
            self.close()
            raise

    def _launch(self, control: int) -> "subprocess.Popen[bytes]":
        surroundings = json.dumps(dataclasses.asdict(tiers.surroundings(self.tier, self._folders)))
        return subprocess.Popen(  # noqa: S603 - a command built here
            tiers.command(self.tier, str(control), surroundings),
            pass_fds=[control],
            cwd="/",
            env=interpreter.ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._log,
            start_new_session=True,
        )

    def _wait_until_ready(self) -> None:
        self._control.settimeout(_PATIENCE)
        try:
            ready = self._control.recv(64)
        except OSError:
            ready = b""
        if not ready:
            raise SandboxError(_last_line(self._log) or "the fork server did not start")

    def _try(self) -> None:
        """Run a program that tries to escape from the sandbox."""
        secret = os.path.join(self._folders, "secret")
        with open(secret, "w", encoding="utf-8") as file:
            file.write("secret")
        code = _CANARY.format(secret=secret, folder=self._folders)
        outcome = self.run(code, Limits(seconds=_PATIENCE), threading.Event())
        if outcome.stdout != _HELD:
            raise SandboxError(f"it does not hold: {outcome.stdout or outcome.stderr or outcome.stopped}")

    def run(
        self, code: str, limits: Limits, cancelled: threading.Event, files: Mapping[str, str] = NO_FILES
    ) -> Outcome:
        """Run a program until it ends or `cancelled` is set.

        Raises SandboxError if the sandbox fails, and NotStarted if it fails before the program starts.
        """
        deadline = time.monotonic() + _PATIENCE
        while True:
            with contextlib.ExitStack() as stack:
                try:
                    streams = self._ask(code, limits, files, stack)
                except OSError as error:
                    if error.errno not in _SHORTAGE or time.monotonic() > deadline:
                        raise NotStarted(f"the sandbox failed: {error.strerror}") from error
                    cancelled.wait(_TICK)
                    continue
                return _Follower(*streams, limits, self.tier).follow(cancelled)

    def _ask(
        self, code: str, limits: Limits, files: Mapping[str, str], stack: contextlib.ExitStack
    ) -> tuple[socket.socket, IO[bytes], IO[bytes]]:
        """Ask the server to start a program. Return the report socket, standard output and standard error.

        Raises OSError and ServerEnded.
        """
        report, theirs = map(stack.enter_context, socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        output, their_output = map(stack.enter_context, _pipe())
        errors, their_errors = map(stack.enter_context, _pipe())
        with _text({**files, program.NAME: code}) as source, their_output, their_errors, theirs:
            descriptors = [file.fileno() for file in (theirs, source, their_output, their_errors)]
            request = {"limits": dataclasses.asdict(limits), "libraries": libraries.mentioned(code)}
            try:
                with self._lock:
                    socket.send_fds(self._control, [json.dumps(request).encode()], descriptors)
            except OSError as error:
                if error.errno in _SHORTAGE:
                    raise
                raise ServerEnded("the sandbox's fork server has ended") from error
        return report, output, errors

    def close(self) -> None:
        """End the server and all its programs."""
        self._control.close()
        if self._process is not None:
            try:
                self._process.wait(_CLOSE_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._log.close()
        with contextlib.suppress(OSError):  # a program that is being killed may still write
            folder.remove(self._folders)
        os.close(self._claim)


class _Follower:
    """A reader of a program's output, until the program ends or has to be stopped."""

    def __init__(self, report: socket.socket, output: IO[bytes], errors: IO[bytes], limits: Limits, tier: str) -> None:
        self._report = report
        self._limits = limits
        self._tier = tier
        self._streams = (output, errors)
        self._errors = errors
        self._output, self._last_errors, self._errors_seen = bytearray(), bytearray(), 0

    def follow(self, cancelled: threading.Event) -> Outcome:
        """Return how the program ended. The time limit counts from its start. Raises SandboxError."""
        deadline = time.monotonic() + _PATIENCE
        started = False
        with selectors.PollSelector() as selector:  # uses no descriptor
            selector.register(self._report, selectors.EVENT_READ)
            for stream in self._streams:
                selector.register(stream, selectors.EVENT_READ)
            while True:
                wait = min(_TICK, max(0.0, deadline - time.monotonic()))
                ready = [key.fileobj for key, _ in selector.select(wait)]
                for stream in {*self._streams} & {*ready}:
                    if self._read(stream) == b"":
                        selector.unregister(stream)
                if self._flooded:
                    return self._stop("flood")
                if self._report in ready:
                    if started:
                        return self._end()
                    self._await_start()
                    started, deadline = True, time.monotonic() + self._limits.seconds
                elif cancelled.is_set():
                    return self._stop("cancelled")
                elif time.monotonic() > deadline:
                    if not started:
                        raise ServerEnded("the sandbox's fork server does not answer")
                    return self._stop("timeout")

    def _await_start(self) -> None:
        message = _receive(self._report)
        if message is None:
            raise ServerEnded("the sandbox's fork server ended before the code ran")
        if "started" not in message:
            raise NotStarted(f"the sandbox failed: {message.get('failed', 'the program was ended before its start')}")

    def _read(self, stream: IO[bytes]) -> bytes | None:
        """Take what is in a stream. Return it: None if there is nothing yet, and no bytes at its end."""
        chunk = stream.read(_CHUNK)
        if chunk and stream is self._errors:
            self._errors_seen += len(chunk)
            self._last_errors = (self._last_errors + chunk)[-ERRORS_KEPT:]
        elif chunk:
            self._output += chunk
        return chunk

    @property
    def _flooded(self) -> bool:
        return len(self._output) > self._limits.output_bytes or self._errors_seen > _MOST_ERRORS

    def _stop(self, why: Stopped) -> Outcome:
        """Have the program killed and wait for its end."""
        self._report.shutdown(socket.SHUT_WR)
        self._report.settimeout(_PATIENCE)
        return self._end(why)

    def _end(self, stopped: Stopped = "") -> Outcome:
        end = _receive(self._report)
        while end and "status" not in end:  # it was stopped before the start message was read
            end = _receive(self._report)
        if end is None:
            raise SandboxError("the sandbox's fork server ended while the code ran")
        for stream in self._streams:  # nobody writes any more; the rest is in the pipe
            while not self._flooded and self._read(stream):
                pass
        if not stopped:
            stopped = "flood" if self._flooded else _why(end)
        stdout = self._output[: self._limits.output_bytes].decode("utf-8", "replace").strip()
        stderr = self._last_errors.decode("utf-8", "replace").strip()
        return Outcome(stdout, stderr, end["status"], stopped, self._tier)


def _why(end: dict[str, Any]) -> Stopped:
    """Return which limit ended the program, of those that the server and the kernel enforce."""
    if end["status"] == -signal.SIGXCPU:
        return "timeout"
    return "disk" if end["stopped"] == "disk" else ""


def _receive(report: socket.socket) -> dict[str, Any] | None:
    """Return the next message, or None if the server has ended or does not answer."""
    try:
        message = report.recv(1 << 16)
    except OSError:
        return None
    return json.loads(message) if message else None


def _pipe() -> tuple[IO[bytes], IO[bytes]]:
    """Return both ends of a pipe with a non-blocking reader."""
    ours, theirs = os.pipe()
    os.set_blocking(ours, False)
    return open(ours, "rb", buffering=0), open(theirs, "wb", buffering=0)


def _text(files: Mapping[str, str]) -> IO[bytes]:
    """Return the program and its files as JSON in a file in memory, positioned at its start."""
    file = open(os.memfd_create("program"), "wb", buffering=0)  # noqa: SIM115 - closed by the caller
    file.write(json.dumps(files, ensure_ascii=False).encode("utf-8", "replace"))
    file.seek(0)
    return file


def _last_line(log: IO[bytes]) -> str:
    log.seek(0)
    lines = log.read().decode("utf-8", "replace").strip().splitlines()
    return lines[-1].strip() if lines else ""
