"""Questions that are read at a terminal."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.test_cli_threads import until

PROGRAM = (Path(__file__).parent / "cases/interrupt.py.txt").read_text()


@pytest.mark.parametrize("line", ["edited", "plain"])
def test_an_interrupt_between_two_reads_is_noticed_at_once(line: str, tmp_path: Path) -> None:
    """It was lost until the next key: a Ctrl-C that came while a key was shown, before the next read began."""
    ours, theirs = pty.openpty()
    waits, tells = os.pipe()
    arguments = [sys.executable, "-c", PROGRAM, str(waits), line, str(tmp_path / "history")]
    with subprocess.Popen(arguments, stdin=theirs, stdout=theirs, stderr=theirs, pass_fds=[waits]) as process:
        os.close(theirs)
        try:
            until(ours, "> ")
            os.write(ours, b"half a line")
            until(ours, "half a line")
            os.write(tells, b"x")
            until(ours, "interrupted")
            assert process.wait() == 0
        finally:
            process.kill()
    for end in (ours, waits, tells):
        os.close(end)
