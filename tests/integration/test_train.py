"""The whole of verl's trainer on the micro model, with the real graph and tools, from the command line."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

psutil = pytest.importorskip("psutil")
pytest.importorskip("verl")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SMALL = [
    *("questions=4", "rollouts=4", "train_tasks=48", "test_tasks=12", "seed=3"),
    *("validate_every=2", "validation_rollouts=1", "save_every=1"),
]


def train(out: Path, *settings: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "agentflow", "train", f"out={out}", *SMALL, *settings]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def lines(out: Path, split: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [line for line in found if line["split"] == split]


def rollouts(out: Path, step: int, split: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / f"rollouts/{step:06d}-{split}.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "short"
    train(out, "steps=2")
    return out


def test_it_trains_validates_and_records_every_rollout(run: Path) -> None:
    steps = lines(run, "train")
    assert [line["step"] for line in steps] == [1, 2]
    assert [line["step"] for line in lines(run, "test")] == [0, 2]
    for line in steps:
        assert line["rollouts"] == len(rollouts(run, line["step"], "train")) == 16
        assert 0 <= line["reward"] <= 1
        assert line["kl"] < 0.1
    records = rollouts(run, 2, "test")
    assert len(records) == 12
    assert lines(run, "test")[-1]["accuracy"] == pytest.approx(sum(record["reward"] for record in records) / 12)
    assert {"question", "turns", "answer"} <= set(records[0]["episode"])


def test_it_goes_on_where_it_stopped(run: Path) -> None:
    train(run, "steps=3")
    assert [line["step"] for line in lines(run, "train")] == [1, 2, 3]
    assert len(rollouts(run, 3, "train")) == 16


def test_another_run_in_the_same_folder_is_refused(run: Path) -> None:
    done = train(run, "steps=3", "lr=0.5", check=False)
    assert done.returncode == 2
    assert "holds a run with other settings (lr)" in done.stderr


def test_an_export_answers_a_question(run: Path, tmp_path: Path) -> None:
    agentflow = [sys.executable, "-m", "agentflow"]
    subprocess.run([*agentflow, "export", str(run), str(tmp_path / "planner")], check=True, timeout=120)
    done = subprocess.run(
        [*agentflow, "solve", "How many feet are 3 yards?", "--json", "--planner", f"embedded:{tmp_path / 'planner'}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["turns"]


def test_a_run_that_is_killed_in_mid_step_loses_and_repeats_nothing(tmp_path: Path) -> None:
    out = tmp_path / "killed"
    command = [sys.executable, "-m", "agentflow", "train", f"out={out}", *SMALL, "steps=4"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 400
    while not (out / "rollouts/000003-train.jsonl").exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    for member in family:
        try:
            os.kill(member.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait(30)
    train(out, "steps=4")
    assert [line["step"] for line in lines(out, "train")] == [1, 2, 3, 4]
    for step in (1, 2, 3, 4):
        assert len(rollouts(out, step, "train")) == 16
