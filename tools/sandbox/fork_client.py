"""The host's end of a fork server: starts it, tries it, hands it programs and follows them.

Blocking calls, made from a thread per program: a server is shared by all threads and event loops of a process.
"""

import contextlib
import dataclasses
import json
import os
import selectors
import signal
import socket
import subprocess
import tempfile
import threading
import time
from typing import IO, Any

from agentflow.tools.sandbox import folder, interpreter, libraries, tiers
from agentflow.tools.sandbox.limits import Limits, Outcome, SandboxError, Stopped
from agentflow.tools.sandbox.output import Output

_START_SECONDS = 30.0
"""For a server to start, and for it to fork: it may be importing a large library."""
_KILL_SECONDS = 10.0
_CHUNK = 1 << 16
_TICK = 0.05
"""Seconds between looks at whether the caller has given up."""

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
"""Tries to get out in the ways that matter most, and says which worked."""
_HELD = f"42 {[False] * 7}"


class ServerEnded(SandboxError):
    """The fork server ended before the program was started: another server can run it."""


class ForkServer:
    """A fork server of one tier; usable from any thread until it ends or is closed."""

    def __init__(self, tier: str) -> None:
        """Starts the server. Raises SandboxError, with the reason, if it does not start or does not confine."""
        self.tier = tier
        self._folders = tempfile.mkdtemp(prefix="agentflow-")
        os.chmod(self._folders, 0o711)  # noqa: S103 - programs, as other users, go through to their own folders
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
        launch = tiers.launch(self.tier)
        surroundings = json.dumps(dataclasses.asdict(launch.surroundings(self._folders)))
        server = interpreter.command("fork_server", launch.home, str(control), surroundings)
        return subprocess.Popen(  # noqa: S603 - a command of ours
            launch.command(server),
            pass_fds=[control],
            cwd="/",
            env=interpreter.ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._log,
            start_new_session=True,
        )

    def _wait_until_ready(self) -> None:
        self._control.settimeout(_START_SECONDS)
        try:
            ready = self._control.recv(64)
        except OSError:
            ready = b""
        if not ready:
            raise SandboxError(_last_line(self._log) or "the fork server did not start")
        self._control.settimeout(None)

    def _try(self) -> None:
        """Runs a program that tries to get out."""
        secret = os.path.join(self._folders, "secret")
        with open(secret, "w", encoding="utf-8") as file:
            file.write("secret")
        outcome = self.run(_CANARY.format(secret=secret, folder=self._folders), Limits(), threading.Event())
        if outcome.stdout != _HELD:
            raise SandboxError(f"it does not hold: {outcome.stdout or outcome.stderr}")

    def run(self, code: str, limits: Limits, cancelled: threading.Event) -> Outcome:
        """Runs a program to its end, or until `cancelled` is set. Raises SandboxError if the sandbox fails."""
        with contextlib.ExitStack() as stack:
            report, theirs = map(stack.enter_context, socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            output, their_output = map(stack.enter_context, _pipe())
            errors, their_errors = map(stack.enter_context, _pipe())
            with _text(code) as program, their_output, their_errors, theirs:
                self._send(code, limits, [program, their_output, their_errors, theirs])
            _await_start(report)
            return _Follower(report, output, errors, limits, self.tier).follow(cancelled)

    def _send(self, code: str, limits: Limits, files: list[Any]) -> None:
        request = {"limits": dataclasses.asdict(limits), "libraries": libraries.mentioned(code)}
        try:
            with self._lock:
                socket.send_fds(self._control, [json.dumps(request).encode()], [file.fileno() for file in files])
        except OSError as error:
            raise ServerEnded("the sandbox's fork server has ended") from error

    def close(self) -> None:
        """Ends the server and whatever it runs."""
        self._control.close()
        if self._process is not None:
            try:
                self._process.wait(_KILL_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._log.close()
        with contextlib.suppress(OSError):  # a program that is just being killed may still write
            folder.remove(self._folders)


class _Follower:
    """Reads what a program prints until it ends, or has to be stopped."""

    def __init__(self, report: socket.socket, output: IO[bytes], errors: IO[bytes], limits: Limits, tier: str) -> None:
        self._report = report
        self._limits = limits
        self._tier = tier
        self._output = Output(limits)
        self._streams = {output: self._output.add_output, errors: self._output.add_errors}

    def follow(self, cancelled: threading.Event) -> Outcome:
        """How the program ended; the limit of time counts from here."""
        deadline = time.monotonic() + self._limits.seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._report, selectors.EVENT_READ)
            for stream in self._streams:
                selector.register(stream, selectors.EVENT_READ)
            while True:
                wait = min(_TICK, max(0.0, deadline - time.monotonic()))
                ready = [key.fileobj for key, _ in selector.select(wait)]
                for stream in self._streams.keys() & ready:
                    if not self._read(stream):
                        selector.unregister(stream)
                if self._output.flooded:
                    return self._stop("flood")
                if self._report in ready:
                    return self._end()
                if time.monotonic() > deadline:
                    return self._stop("timeout")
                if cancelled.is_set():
                    return self._stop("cancelled")

    def _read(self, stream: IO[bytes]) -> bool:
        """Whether there may be more, later."""
        chunk = stream.read(_CHUNK)
        if chunk:
            self._streams[stream](chunk)
        return chunk != b""

    def _stop(self, why: Stopped) -> Outcome:
        """Has the program killed and waits for that."""
        self._report.shutdown(socket.SHUT_WR)
        self._report.settimeout(_KILL_SECONDS)
        return self._end(why)

    def _end(self, stopped: Stopped = "") -> Outcome:
        end = _receive(self._report)
        if end is None:
            raise SandboxError("the sandbox's fork server ended while the code ran")
        for stream in self._streams:  # nobody writes any more; what there is, is in the pipe
            while not self._output.flooded and (chunk := stream.read(_CHUNK)):
                self._streams[stream](chunk)
        if not stopped:
            stopped = "flood" if self._output.flooded else _why(end)
        stdout, stderr = self._output.texts()
        return Outcome(stdout, stderr, end["status"], stopped, self._tier)


def _why(end: dict[str, Any]) -> Stopped:
    """Whether it was a limit that ended the program, of those that the server and the kernel watch."""
    if end["status"] == -signal.SIGXCPU:
        return "timeout"
    return "disk" if end["stopped"] == "disk" else ""


def _await_start(report: socket.socket) -> None:
    report.settimeout(_START_SECONDS)
    if _receive(report) is None:
        raise ServerEnded("the sandbox's fork server ended before the code ran")
    report.settimeout(None)


def _receive(report: socket.socket) -> dict[str, Any] | None:
    """The next message; None if the server has ended or does not answer. Raises SandboxError if it failed."""
    try:
        message = report.recv(1 << 16)
    except OSError:
        return None
    if not message:
        return None
    content: dict[str, Any] = json.loads(message)
    if "failed" in content:
        raise SandboxError(f"the sandbox failed: {content['failed']}")
    return content


def _pipe() -> tuple[IO[bytes], IO[bytes]]:
    """Both ends; reading does not wait."""
    ours, theirs = os.pipe()
    os.set_blocking(ours, False)
    return open(ours, "rb", buffering=0), open(theirs, "wb", buffering=0)


def _text(code: str) -> IO[bytes]:
    """The program in memory, to be read from its start."""
    file = open(os.memfd_create("program"), "wb", buffering=0)  # noqa: SIM115 - the caller's to close
    file.write(code.encode("utf-8", "replace"))
    file.seek(0)
    return file


def _last_line(log: IO[bytes]) -> str:
    log.seek(0)
    lines = log.read().decode("utf-8", "replace").strip().splitlines()
    return lines[-1].strip() if lines else ""
