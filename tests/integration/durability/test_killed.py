"""kill -9 at any point of a turn: the same answer, and no call with side effects made twice without saying so."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
UNCERTAIN = "<ErrorClass.UNCERTAIN: 'uncertain'>"
SAID: dict[str, str] = {
    "planner": "[None, None]",
    "executor": "[None, None]",
    "before": "[None, None]",
    "in": f"[{UNCERTAIN}, None, None, None]",  # it looks, finds nothing, and writes
    "after": f"[{UNCERTAIN}, None]",  # it looks, and finds it
}
"""Results of the turns of a resumed run, by the point of the kill."""


@pytest.fixture
def spec(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path / 'threads.sqlite'}"


def start(spec: str, thread: str, folder: Path, point: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.integration.durability.agent", spec, thread, str(folder), point]
    # Strict serialisation is ours, not the environment's.
    environment = {name: value for name, value in os.environ.items() if name != "LANGGRAPH_STRICT_MSGPACK"}
    return subprocess.Popen(
        command, cwd=ROOT, env={**environment, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True
    )


def killed(spec: str, thread: str, folder: Path, point: str) -> None:
    with start(spec, thread, folder, point) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == f"{point}\n"
        finally:
            process.kill()
    assert process.returncode == -9


def answered(spec: str, thread: str, folder: Path) -> str:
    with start(spec, thread, folder, "none") as process:
        said, _ = process.communicate()
    assert process.returncode == 0
    return said.strip()


@pytest.mark.parametrize("point", SAID)
def test_a_killed_run_gives_the_same_answer(point: str, spec: str, tmp_path: Path) -> None:
    thread = f"killed-{point}"
    killed(spec, thread, tmp_path, point)
    assert answered(spec, thread, tmp_path) == f"answered: hello: {SAID[point]}"
    assert (tmp_path / f"{thread}.txt").read_text() == "hello\n"


def test_a_run_that_is_killed_twice(spec: str, tmp_path: Path) -> None:
    killed(spec, "twice", tmp_path, "planner")
    killed(spec, "twice", tmp_path, "after")
    assert answered(spec, "twice", tmp_path) == f"answered: hello: {SAID['after']}"
    assert (tmp_path / "twice.txt").read_text() == "hello\n"
