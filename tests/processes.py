"""Programs in processes of their own: Python with any words, and commands that serve until they are ended."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.waiting import LAST_RESORT


def python(*words: object, check: bool = False, **how: Any) -> "subprocess.CompletedProcess[str]":
    """Run this interpreter with these words until it ends; `how` is for subprocess."""
    return subprocess.run([sys.executable, *map(str, words)], capture_output=True, text=True, check=check, **how)


@contextmanager
def running(*words: object, **how: Any) -> Iterator[Any]:
    """A command of ours that runs until the end of the block, and ends well then."""
    with subprocess.Popen([sys.executable, "-m", "agentflow", *map(str, words)], text=True, **how) as server:
        try:
            yield server
        finally:  # without it, a test that fails waits for the server for ever
            server.terminate()
        assert server.wait(timeout=LAST_RESORT) in (0, -signal.SIGTERM)
