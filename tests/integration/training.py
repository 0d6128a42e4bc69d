"""Short training runs from the command line, and what they record."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from agentflow.rl.apps.trainable import Split
from agentflow.rl.rollout.rollout import RolloutTrace
from agentflow.rl.rollout.tokens import TokenStep, unpacked
from agentflow.rl.run.training_log import TrainingLog
from tests.processes import python

trains = pytest.mark.slow
"""Mark of the tests that train."""

SMALL = [
    *("questions=2", "rollouts=4", "train_tasks=48", "test_tasks=4", "seed=3"),
    *("validate_every=2", "validation_rollouts=1", "save_every=1"),
]


def train(out: Path, *settings: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
    done = python("-m", "agentflow", "train", f"out={out}", *SMALL, *settings)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def agentflow(*words: str) -> str:
    """Run `agentflow` and return its output; a failure of the command fails the test."""
    done = python("-m", "agentflow", *words)
    assert done.returncode == 0, f"{words}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


def replayed(out: Path, step: int, *options: str) -> str:
    """Replay a step of a run; what it prints."""
    return agentflow("replay", str(out), "--step", str(step), *options)


def lines(out: Path, split: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [line for line in found if line["split"] == split]


def rollouts(out: Path, step: int, split: Split) -> list[RolloutTrace]:
    return TrainingLog(out).records(step, split)


def token_step(path: Path) -> TokenStep:
    """The tokens of a step, from their file."""
    found = unpacked(path.read_bytes())
    assert found is not None
    return found


def differences(path: Path) -> list[float]:
    """Absolute differences of the log-probabilities that engine and trainer give the sampled tokens of a step."""
    calls = [call for row in token_step(path).rows for call in row.calls if call.trainer is not None]
    return [abs(ours - theirs) for call in calls for ours, theirs in zip(call.rollout, call.trainer, strict=True)]


def replay_log(out: Path, step: int) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / f"replay/{step:06d}-train.jsonl").read_text().splitlines()]


def started(out: Path, *settings: str, until: str) -> "subprocess.Popen[str]":
    """A run in the background that has come as far as the file `until`."""
    command = [sys.executable, "-m", "agentflow", "train", f"out={out}", *SMALL, *settings]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (out / until).exists():
        if process.poll() is not None:
            said, failed = process.communicate()
            pytest.fail(f"the run ended before {until}: {said[-3000:]}{failed[-3000:]}")
        time.sleep(0.1)
    return process


def ended(process: "subprocess.Popen[str]") -> str:
    """The last line of a run that failed."""
    _, said = process.communicate()
    assert process.returncode == 1, said
    assert "Traceback" not in said
    return said.strip().splitlines()[-1]


def sent(process: "subprocess.Popen[str]", name: str, number: signal.Signals) -> list[int]:
    """Sends a signal to the workers of a class; their process ids."""
    import psutil  # comes with the extra `train`

    family = psutil.Process(process.pid).children(recursive=True)
    workers = [member for member in family if name in " ".join(member.cmdline())]
    assert workers
    for worker in workers:
        worker.send_signal(number)
    return [worker.pid for worker in workers]


def killed(process: "subprocess.Popen[str]") -> None:
    """Kills a run and all of its workers."""
    import psutil  # comes with the extra `train`

    for member in [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]:
        try:
            os.kill(member.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.communicate()
