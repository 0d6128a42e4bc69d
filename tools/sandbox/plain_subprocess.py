"""The tier without isolation: a fresh interpreter per program, with limits and without the host's environment.

It contains accidental damage (endless loops, floods of output, memory, leftover processes). It does not keep a
malicious program from files or the network. It is used on macOS, or when an operator asks for it. A program prints into
files, whose size the system limits, so that nothing has to be read while it runs.
"""

import contextlib
import math
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from agentflow.tools.sandbox import interpreter, program, tiers
from agentflow.tools.sandbox.limits import ERRORS_KEPT, NO_FILES, Limits, Outcome, SandboxError, Stopped

_TICK = 0.05
"""Seconds between checks whether the caller has cancelled."""


def run(code: str, limits: Limits, cancelled: threading.Event, files: Mapping[str, str] = NO_FILES) -> Outcome:
    """Run a program until it ends or `cancelled` is set, and kill the processes that it left running.

    Raises SandboxError if no process can be started for it.
    """
    try:
        return _run(code, limits, cancelled, files)
    except OSError as error:
        raise SandboxError(f"the sandbox failed: {error}") from error


def _run(code: str, limits: Limits, cancelled: threading.Event, files: Mapping[str, str]) -> Outcome:
    numbers = [math.ceil(limits.seconds), limits.memory_bytes, limits.file_bytes]
    with (
        tempfile.TemporaryDirectory(prefix="agentflow-", ignore_cleanup_errors=True) as folder,
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as errors,
    ):
        for name, text in {**files, program.NAME: code}.items():
            (Path(folder) / name).write_text(text, encoding="utf-8", errors="replace")
        with subprocess.Popen(  # noqa: S603 - untrusted input by design; no shell reads the arguments
            interpreter.command("plain_child", str(interpreter.home()), *map(str, numbers)),
            cwd=folder,
            env=interpreter.ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        ) as process:
            try:
                stopped = _awaited(process, limits.seconds, cancelled)
            finally:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)  # includes processes that the program left running
        if not stopped and process.returncode == -signal.SIGXCPU:
            stopped = "timeout"  # on a busy machine, its processor time may end before its seconds do
        if _size(output) > limits.output_bytes:
            stopped = "flood"
        stdout = _text(output, 0, limits.output_bytes)
        stderr = _text(errors, max(0, _size(errors) - ERRORS_KEPT), ERRORS_KEPT)
        return Outcome(stdout, stderr, process.returncode, stopped, tiers.SUBPROCESS)


def _awaited(process: "subprocess.Popen[bytes]", seconds: float, cancelled: threading.Event) -> Stopped:
    """Wait for the program's end. Return why it has to be stopped, if it has to be."""
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_TICK)
            return ""
        if cancelled.is_set():
            return "cancelled"
        if time.monotonic() > deadline:
            return "timeout"


def _size(file: IO[bytes]) -> int:
    return os.fstat(file.fileno()).st_size


def _text(file: IO[bytes], start: int, length: int) -> str:
    return os.pread(file.fileno(), length, start).decode("utf-8", "replace").strip()
