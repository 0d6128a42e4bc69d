"""The tier without isolation: a fresh interpreter per program, with limits and without the host's environment.

It contains accidental damage (endless loops, floods of output, memory, leftover processes). It does not keep a
malicious program from files or the network. It is used on macOS, or when an operator asks for it.
"""

import contextlib
import math
import os
import selectors
import signal
import subprocess
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from agentflow.tools.sandbox import interpreter, tiers
from agentflow.tools.sandbox.limits import Limits, Outcome, SandboxError, Stopped
from agentflow.tools.sandbox.output import Output
from agentflow.tools.sandbox.turns import turns

_TICK = 0.05
"""Seconds between checks of a silent program: whether it was cancelled, or ended while a grandchild keeps its pipe
open.
"""


def run(code: str, limits: Limits, cancelled: threading.Event) -> Outcome:
    """Run a program until it ends or `cancelled` is set, and kill the processes that it left running.

    It may wait long for its turn. Raises SandboxError if no process can be started for it.
    """
    with turns().turn(limits.memory_bytes + limits.disk_bytes, cancelled) as had:
        if not had:
            return Outcome("", "", -signal.SIGKILL, "cancelled", tiers.SUBPROCESS)
        try:
            return _run(code, limits, cancelled)
        except OSError as error:
            raise SandboxError(f"the sandbox failed: {error}") from error


def _run(code: str, limits: Limits, cancelled: threading.Event) -> Outcome:
    numbers = [math.ceil(limits.seconds), limits.memory_bytes, limits.file_bytes]
    with TemporaryDirectory(prefix="agentflow-", ignore_cleanup_errors=True) as folder:
        source = Path(folder) / "program.py"
        source.write_text(code, encoding="utf-8", errors="replace")
        with subprocess.Popen(  # noqa: S603 - untrusted input by design; no shell reads the arguments
            interpreter.command("plain_child", str(interpreter.home()), *map(str, numbers)),
            cwd=folder,
            env=interpreter.ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        ) as process:
            try:
                return follow(process, limits, cancelled)
            finally:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)  # includes processes that the program left running


def follow(process: "subprocess.Popen[bytes]", limits: Limits, cancelled: threading.Event) -> Outcome:
    """Read the output until the program ends or has to be stopped."""
    deadline = time.monotonic() + limits.seconds
    output = Output(limits)
    stopped: Stopped = ""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout or -1, selectors.EVENT_READ, output.add_output)
        selector.register(process.stderr or -1, selectors.EVENT_READ, output.add_errors)
        while not stopped and selector.get_map():
            ended = process.poll() is not None  # polled before reading, so that all its output is in the pipes
            ready = selector.select(0 if ended else _TICK)
            for key, _ in ready:
                if chunk := os.read(key.fd, 1 << 16):
                    key.data(chunk)
                else:
                    selector.unregister(key.fileobj)
            if output.flooded:
                stopped = "flood"
            elif time.monotonic() > deadline:
                stopped = "timeout"
            elif cancelled.is_set():
                stopped = "cancelled"
            elif ended and not ready:
                break
    status = _wait(process, 0 if stopped else deadline - time.monotonic())
    if status is None:
        stopped, status = stopped or "timeout", -signal.SIGKILL
    elif status == -signal.SIGXCPU:  # on a busy machine, its processor time may end before its seconds do
        stopped = stopped or "timeout"
    return Outcome(*output.texts(), status, stopped, tiers.SUBPROCESS)


def _wait(process: "subprocess.Popen[bytes]", seconds: float) -> int | None:
    try:
        return process.wait(max(0.0, seconds))
    except subprocess.TimeoutExpired:
        return None
