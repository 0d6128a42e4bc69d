import subprocess
import sys
from pathlib import Path

import pytest

from agentflow.tools.file_lock import lock

HOLDS = """import sys; from agentflow.tools.file_lock import lock
file = open(sys.argv[1]); lock(file); print(flush=True); input()"""


@pytest.mark.process
def test_one_process_holds_a_lock_until_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()
    command = [sys.executable, "-c", HOLDS, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout
        other.stdout.readline()
        with path.open() as file, pytest.raises(BlockingIOError):
            lock(file)
        other.communicate("\n")
    with path.open() as file:
        lock(file)
