"""The tier without isolation: what it does hold, since macOS has no other."""

import asyncio
import os
import signal
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest

from agentflow.tools.sandbox.limits import Limits, Outcome
from agentflow.tools.sandbox.plain_subprocess import run
from tests.sandboxes import is_alive
from tests.waiting import LAST_RESORT, until, until_async


def cold(code: str, limits: Limits | None = None) -> Outcome:
    return run(code, limits or Limits(), threading.Event())


def ended(pid: int) -> bool:
    """Return whether the process is gone, or only a zombie that nobody reaps."""
    if Path("/proc/self/stat").exists():  # slim images have no ps
        return not is_alive(pid)
    listed = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return listed.strip()[:1] in ("", "Z", "X")


def test_a_program_runs_and_its_folder_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    outcome = cold("import os\nopen('left', 'w').write('x')\nos.getcwd()")
    assert outcome.stdout.startswith(str(tmp_path))
    assert (outcome.status, outcome.tier) == (0, "subprocess")
    assert os.listdir(tmp_path) == []


def test_a_program_opens_its_files() -> None:
    files = {"a.csv": "x,\u00e9\ud800", "program.py": "no"}
    assert run("print(open('a.csv').read())", Limits(), threading.Event(), files).stdout == "x,\u00e9?"


def test_the_environment_of_the_host_is_not_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED_API_KEY", "s3cret-value")
    outcome = cold("import os\nprint(dict(os.environ))")
    assert "PYTHONHASHSEED" in outcome.stdout
    assert "s3cret-value" not in outcome.stdout


def test_open_files_of_the_host_are_not_inherited(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "secret", os.O_CREAT | os.O_RDWR)
    os.set_inheritable(descriptor, True)
    outcome = cold(f"import os\nos.fstat({descriptor})")
    os.close(descriptor)
    assert "Bad file descriptor" in outcome.stderr


@pytest.mark.parametrize(
    ("code", "stopped"),
    [("while True:\n    pass", "timeout"), ("while True:\n    print('x' * 10_000)", "flood")],
)
def test_it_is_stopped(code: str, stopped: str) -> None:
    assert cold(code, Limits(seconds=1)).stopped == stopped


def test_the_end_of_its_processor_time_is_a_timeout() -> None:
    """The kernel ends the program, on a busy machine before the host looks at the clock, and it had no reason then."""
    said = cold("import resource\nprint(*resource.getrlimit(resource.RLIMIT_CPU))", Limits(seconds=7)).stdout.split()
    assert said == ["7", "8"], "SIGXCPU, and a second later SIGKILL"
    assert cold("import os, signal\nos.kill(os.getpid(), signal.SIGXCPU)").stopped == "timeout"


def test_memory_is_bounded() -> None:
    assert cold("a = bytearray(1 << 29)", Limits(memory_bytes=1 << 28)).stderr == "MemoryError (line 1)"


def test_what_a_program_leaves_running_is_killed() -> None:
    outcome = cold("import subprocess\nprint(subprocess.Popen(['/bin/sleep', '60']).pid)")
    until(lambda: ended(int(outcome.stdout)))


def test_a_detached_process_does_not_hold_the_result_back() -> None:
    code = "import subprocess\nprint(subprocess.Popen(['/bin/sleep', '3600'], start_new_session=True).pid)"
    detached = int(cold(code, Limits(seconds=LAST_RESORT)).stdout)
    assert not ended(detached)
    os.kill(detached, signal.SIGKILL)


async def test_cancellation_kills_the_program(tmp_path: Path) -> None:
    cancelled, mark = threading.Event(), tmp_path / "pid"
    code = f"import os, time\nopen({str(mark)!r}, 'w').write(str(os.getpid()))\ntime.sleep(3600)"
    task = asyncio.create_task(asyncio.to_thread(run, code, Limits(seconds=LAST_RESORT), cancelled))
    await until_async(lambda: mark.exists() and mark.read_text())
    cancelled.set()
    assert (await task).stopped == "cancelled"
    until(lambda: ended(int(mark.read_text())))


def test_of_many_errors_the_end_is_kept() -> None:
    outcome = cold("import sys\nprint('x' * 20_000, file=sys.stderr)\nprint(42)\n1 / 0")
    assert (outcome.stdout, len(outcome.stderr)) == ("42", 8191)
    assert outcome.stderr.endswith("ZeroDivisionError: division by zero (line 4)")
