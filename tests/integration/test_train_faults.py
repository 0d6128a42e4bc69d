"""What happens to a training run, and to what it had saved, when something breaks."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.training import SMALL, lines, rollouts, started, train

psutil = pytest.importorskip("psutil")
pytest.importorskip("verl")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_a_worker_that_is_killed_ends_the_run_with_a_clear_line(tmp_path: Path) -> None:
    out = tmp_path / "worker"
    process = started(out, "steps=3", until="rollouts/000002-train.jsonl")
    family = psutil.Process(process.pid).children(recursive=True)
    workers = [member for member in family if "AgentLoopWorker" in " ".join(member.cmdline())]
    assert workers
    for worker in workers:
        worker.kill()
    _, said = process.communicate(timeout=120)
    assert process.returncode == 1, said
    assert "a process that rollouts run in has died" in said
    assert "the same command goes on from the last checkpoint" in said
    assert "Traceback" not in said
    train(out, "steps=3")
    assert [line["step"] for line in lines(out, "train")] == [1, 2, 3]
    assert len(rollouts(out, 2, "train")) == 16


def test_a_full_disk_at_a_checkpoint_loses_no_earlier_one(tmp_path: Path) -> None:
    """The run's folder is on a disk with room for one checkpoint and a part of the next; then there is more room."""
    out = tmp_path / "disk"
    out.mkdir()
    command = " ".join([sys.executable, "-m", "agentflow", "train", f"out={out}/run", *SMALL, "steps=2", "keep=2"])
    script = f"""
        mount -t tmpfs -o size=56m none {out} || exit 77
        {command}; first=$?
        mount -o remount,size=400m {out} || exit 77
        {command} || exit 3
        cp {out}/run/metrics.jsonl {tmp_path}
        exit $first
    """
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True, timeout=800, check=False
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("no right to mount a small disk here")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "No space left on device" in done.stderr
    assert "the same command goes on from the last checkpoint" in done.stderr
    assert [line["step"] for line in lines(tmp_path, "train")] == [1, 2]


def test_a_run_that_is_killed_in_mid_step_loses_and_repeats_nothing(tmp_path: Path) -> None:
    out = tmp_path / "killed"
    process = started(out, "steps=4", until="rollouts/000003-train.jsonl")
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    for member in family:
        try:
            os.kill(member.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.communicate(timeout=30)
    train(out, "steps=4")
    assert [line["step"] for line in lines(out, "train")] == [1, 2, 3, 4]
    for step in (1, 2, 3, 4):
        assert len(rollouts(out, step, "train")) == 16
