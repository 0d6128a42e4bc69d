"""Faults during training: the run's state and saved data after something breaks."""

import shlex
import signal
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from agentflow.rl.run.alarm import Cause
from tests.integration.training import SMALL, ended, killed, lines, replay_log, rollouts, sent, started, train, trains
from tests.waiting import until

pytest.importorskip("psutil")
pytest.importorskip("verl")

pytestmark = trains


def test_a_worker_and_then_the_run_are_killed_twice_and_nothing_is_lost_or_repeated(tmp_path: Path) -> None:
    """A worker in step 2, the run in step 3, and in its last validation, after the last checkpoint was saved.

    Each answered call is a line of the replay log, so a repeated call has two lines.
    """
    out, settings = tmp_path / "killed", ("steps=4", "validation_rollouts=8")
    process = started(out, *settings, until="rollouts/000001-train.jsonl")
    [worker] = sent(process, "FlowLoopWorker", signal.SIGKILL)
    until(lambda: (out / "rollouts/000003-train.jsonl").exists())
    killed(process)
    process = started(out, *settings, until="replay/000004-test.jsonl")
    killed(process)
    assert [line["step"] for line in lines(out, "train")] == [1, 2, 3]
    train(out, *settings)
    found = lines(out, "train")
    assert [line["step"] for line in found] == [1, 2, 3, 4]
    assert [line["step"] for line in lines(out, "test")] == [0, 2, 4]
    [restarted] = [name for line in found + lines(out, "test") for name in line.get("restarted", ())]
    assert str(worker) in restarted
    for line in found:
        records, told = rollouts(out, line["step"], "train"), replay_log(out, line["step"])
        assert len(records) == line["rollouts"] == 8
        assert line["batch"]
        assert sum(entry["kind"] == "policy" for entry in told) == sum(len(record.calls) for record in records)
        assert sum(entry["kind"] == "end" for entry in told) == 8
    assert not (out / "pending.json").exists()


def test_a_training_ends_after_each_fault_and_continues_with_the_command_that_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One run whose weight sync fails, whose server and training worker are killed, and whose weight sync stalls."""
    out, flag = tmp_path / "run", tmp_path / "flag"
    monkeypatch.setenv("FAILING_SYNC", str(flag))
    settings = ["steps=4", "sync_seconds=20", "actor_rollout_ref.model.external_lib=tests.integration.failing_sync"]

    def assert_names(line: str, *words: str, step: int) -> None:
        """Expect these words in the last line of a run, and a command that continues from the step."""
        assert all(word in line for word in words), line
        assert f"continue from step {step} with: agentflow train" in line
        command = shlex.split(line.partition(" with: agentflow ")[2])
        assert {f"out={out}", *SMALL, *settings} <= set(command)

    process = started(out, *settings, until="rollouts/000001-train.jsonl")
    flag.touch()
    assert_names(ended(process), "weight sync", "this weight has no loader", str(out / "logs"), step=1)

    process = started(out, *settings, until="rollouts/000002-train.jsonl")
    [server] = sent(process, "MicroServer", signal.SIGKILL)
    assert_names(ended(process), str(server), f"-{server}.err", step=1)

    process = started(out, *settings, until="rollouts/000003-train.jsonl")
    [worker] = sent(process, "WorkerDict", signal.SIGKILL)
    assert_names(ended(process), str(worker), f"-{worker}.err", step=2)

    flag.write_text(str(out / "checkpoints/global_step_3"))
    process = started(out, *settings, until="checkpoints/global_step_3")
    assert_names(ended(process), "weight sync", "sync_seconds=20", str(out / "logs"), step=3)

    train(out, *settings)
    assert [line["step"] for line in lines(out, "train")] == [1, 2, 3, 4]
    assert [len(rollouts(out, step, "train")) for step in (1, 2, 3, 4)] == [8] * 4


def test_a_ray_that_does_not_answer_ends_the_run_within_its_seconds(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        done = train(tmp_path / "run", f"ray_address={address}", "ray_seconds=5", check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    line = done.stderr.strip().splitlines()[-1]
    assert f"no Ray answers at {address} within ray_seconds=5" in line
    assert "continue from the start with: agentflow train" in line


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
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True, check=False)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("no right to mount a small disk here")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "No space left on device" in done.stderr
    assert "continue from step 1 with: agentflow train" in done.stderr
    assert [line["step"] for line in lines(tmp_path, "train")] == [1, 2]


# Rollouts that begin before the last step's update is over

STEPS = range(1, 6)
STALE = ("steps=5", "max_staleness=1")


def test_every_rollout_is_trained_on_in_its_step_whatever_is_killed_on_the_way(tmp_path: Path) -> None:
    """A worker is killed, and later the whole run, each time while rollouts of two steps may be under way."""
    out = tmp_path / "stale"
    process = started(out, *STALE, until="rollouts/000002-train.jsonl")
    [worker] = sent(process, "FlowLoopWorker", signal.SIGKILL)
    until(lambda: (out / "rollouts/000004-train.jsonl").exists())
    killed(process)
    train(out, *STALE)
    found = lines(out, "train")
    assert [line["step"] for line in found] == list(STEPS)
    assert any(str(worker) in name for line in lines(out, "train") for name in line.get("restarted", ()))
    assert max(line["max_staleness"] for line in found) == 1
    # With so few rollouts, others may be raised by chance.
    assert not {line["alarm"]["cause"] for line in found if "alarm" in line} & {Cause.STALE, Cause.MISMATCH}
    for line in found:
        records = rollouts(out, line["step"], "train")
        assert len(records) == line["rollouts"] == 8
        assert line["sampled_tokens"] == sum(call.sampled_tokens for record in records for call in record.calls)
        told = replay_log(out, line["step"])
        assert sum(entry["kind"] == "policy" for entry in told) == sum(len(record.calls) for record in records)
    asked = Counter(record.task.id for step in STEPS for record in rollouts(out, step, "train"))
    assert set(asked.values()) == {4}, "a question is one step's, with all of its rollouts"
