"""Trainings whose rollouts begin before the last step's update is over."""

import signal
from pathlib import Path

import pytest

from agentflow.rl.run.alarm import Cause
from tests.integration.training import killed, lines, replay_log, rollouts, sent, started, train
from tests.waiting import until

pytest.importorskip("verl")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

STEPS = range(1, 6)
STALE = ("steps=5", "max_staleness=1")


def tasks(out: Path, step: int) -> list[str]:
    return sorted(record.task.id for record in rollouts(out, step, "train"))


def test_every_rollout_is_trained_on_in_its_step_whatever_is_killed_on_the_way(tmp_path: Path) -> None:
    """A worker is killed, and later the whole run, each time while rollouts of two steps may be under way."""
    out, plain = tmp_path / "stale", tmp_path / "plain"
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
        assert len(records) == line["rollouts"] == 16
        assert line["sampled_tokens"] == sum(call.sampled_tokens for record in records for call in record.calls)
        told = replay_log(out, line["step"])
        assert sum(entry["kind"] == "policy" for entry in told) == sum(len(record.calls) for record in records)
    train(plain, "steps=5", "validate_every=5")
    assert [tasks(out, step) for step in STEPS] == [tasks(plain, step) for step in STEPS]
