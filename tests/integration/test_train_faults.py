"""Faults during training: the run's state and saved data after something breaks."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.training import SMALL, lines, replay_log, rollouts, started, train

psutil = pytest.importorskip("psutil")
pytest.importorskip("verl")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def killed(process: "subprocess.Popen[str]", name: str) -> list[int]:
    """Kills the workers of a class; their process ids."""
    family = psutil.Process(process.pid).children(recursive=True)
    workers = [member for member in family if name in " ".join(member.cmdline())]
    assert workers
    for worker in workers:
        worker.kill()
    return [worker.pid for worker in workers]


def test_rollouts_go_on_when_their_worker_is_killed_and_repeat_no_call(tmp_path: Path) -> None:
    """Each answered call is a line of the replay log, so a repeated call has two lines."""
    out = tmp_path / "worker"
    process = started(out, "steps=3", until="rollouts/000002-train.jsonl")
    [worker] = killed(process, "FlowLoopWorker")
    terminal, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    assert [line["step"] for line in lines(out, "train")] == [1, 2, 3]
    [restarted] = [name for line in lines(out, "train") + lines(out, "test") for name in line.get("restarted", ())]
    assert str(worker) in restarted
    assert restarted in terminal
    for step in (1, 2, 3):
        records, told = rollouts(out, step, "train"), replay_log(out, step)
        assert len(records) == 16
        assert sum(line["kind"] == "policy" for line in told) == sum(len(record.calls) for record in records)
        assert sum(line["kind"] == "end" for line in told) == 16


def test_a_server_of_the_policy_that_is_killed_ends_the_run_with_a_clear_line(tmp_path: Path) -> None:
    out = tmp_path / "server"
    process = started(out, "steps=3", until="rollouts/000002-train.jsonl")
    killed(process, "MicroServer")
    _, said = process.communicate(timeout=120)
    assert process.returncode == 1, said
    assert "the server of the policy has died" in said
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
