"""Runs a Python program in a child process under limits: the seam behind python_coder.

`execute(code, limits) -> Outcome` is all that the tool knows, so that a real sandbox can take this file's place. What
is here keeps an honest mistake harmless (endless loop, flood, memory, leftover processes, secrets in the environment);
it does not keep a malicious program away from files or the network, and `sandbox_level` says so.

A thread per run with blocking reads, rather than asyncio's subprocesses: these hang on Python 3.11 when a grandchild
keeps the pipe open, and depend on the kind of event loop.
"""

import asyncio
import contextlib
import math
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

MAX_CONCURRENT = 64
"""Programs at a time in this process; further ones wait, and their time does not count."""

_CHILD = Path(__file__).with_name("python_child.py")
_ENVIRONMENT = {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
"""The whole environment: equal set order in every run, and less address space for numpy and for threads."""
_TICK = 0.05
"""Seconds between looks at a silent program: has it been cancelled, or ended while a grandchild holds its pipe?"""
_STDERR_TAIL = 8192


@dataclass(frozen=True)
class Limits:
    """What a program may use."""

    seconds: float = 10.0
    memory_bytes: int = 1 << 30
    file_bytes: int = 64 << 20
    output_bytes: int = 64 << 10


@dataclass(frozen=True)
class Outcome:
    """How a program ended."""

    stdout: str
    stderr: str
    """Its last 8 KiB."""
    status: int
    """Exit status; minus the signal's number if a signal ended it."""
    stopped: Literal["", "timeout", "flood", "cancelled"] = ""
    """Why it was stopped from here, if it was."""


def sandbox_level() -> str:
    """What keeps programs in check, for people to read."""
    return "subprocess: resource limits, empty environment, no isolation of files or network"


async def execute(code: str, limits: Limits) -> Outcome:
    """Runs `code` in a fresh interpreter and an empty working directory; kills it when the caller is cancelled."""
    cancelled = threading.Event()
    try:
        return await asyncio.get_running_loop().run_in_executor(_threads(), _run, code, limits, cancelled)
    finally:
        cancelled.set()


@lru_cache(maxsize=1)
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MAX_CONCURRENT, thread_name_prefix="python_coder")


def _run(code: str, limits: Limits, cancelled: threading.Event) -> Outcome:
    with TemporaryDirectory(prefix="agentflow-", ignore_cleanup_errors=True) as folder:
        program = Path(folder) / "program.py"
        program.write_text(code, encoding="utf-8", errors="replace")
        # The standard library and installed packages can be imported; the folder of python_child.py cannot (-P).
        options = ["-s", "-P", "-B", "-X", "utf8"]
        numbers = [math.ceil(limits.seconds), limits.memory_bytes, limits.file_bytes]
        with subprocess.Popen(  # noqa: S603 - untrusted input is what it is for; no shell reads the arguments
            [sys.executable, *options, str(_CHILD), program.name, *map(str, numbers)],
            cwd=folder,
            env=_ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        ) as process:
            try:
                return _follow(process, limits, cancelled)
            finally:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)  # also what the program left running


def _follow(process: "subprocess.Popen[bytes]", limits: Limits, cancelled: threading.Event) -> Outcome:
    """Reads until the program ends or has to be stopped; never holds more than the limit and one read."""
    deadline = time.monotonic() + limits.seconds
    output, errors = bytearray(), bytearray()
    stopped: Literal["", "timeout", "flood", "cancelled"] = ""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout or -1, selectors.EVENT_READ, output)
        selector.register(process.stderr or -1, selectors.EVENT_READ, errors)
        while not stopped and selector.get_map():
            ended = process.poll() is not None  # asked before reading: whatever it wrote is in the pipes by now
            ready = selector.select(0 if ended else _TICK)
            for key, _ in ready:
                if chunk := os.read(key.fd, 1 << 16):
                    key.data.extend(chunk)
                else:
                    selector.unregister(key.fileobj)
            del errors[:-_STDERR_TAIL]
            if len(output) > limits.output_bytes:
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
    return Outcome(_decode(output[: limits.output_bytes]), _decode(errors), status, stopped)


def _wait(process: "subprocess.Popen[bytes]", seconds: float) -> int | None:
    try:
        return process.wait(max(0.0, seconds))
    except subprocess.TimeoutExpired:
        return None


def _decode(data: bytes | bytearray) -> str:
    return data.decode("utf-8", "replace").strip()
