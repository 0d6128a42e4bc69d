"""On-policy distillation with the whole of verl's trainer: the shipped planner teaches the seed."""

import subprocess
import sys
from pathlib import Path

import pytest

from agentflow.rl.micro.chat_model import TRAINED
from agentflow.rl.rollout.tokens import unpacked
from agentflow.rl.run.export import Recorded, _log_probs
from tests.integration.training import lines, rollouts, train

pytest.importorskip("verl")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "taught"
    train(out, "algorithm=opd", "steps=2", "questions=4", "rollouts=2", "test_tasks=4", "lr=1e-3")
    return out


def test_the_recorded_advantages_are_those_of_the_teachers_weights(run: Path) -> None:
    """The teacher's log-probabilities are computed again here, by transformers and row by row."""
    found = unpacked((run / "tokens/000001.jsonl.gz").read_bytes())
    assert found is not None
    for row in found.rows:
        for call in row.calls:
            recorded = Recorded(row.ids)
            recorded.add(call.start, call.rollout)
            [teacher] = _log_probs(TRAINED, [recorded], 1.0)
            student = [value for value in call.rollout if value is not None]
            expected = sum(ours - own for ours, own in zip(teacher, student, strict=True)) / len(student)
            assert call.advantage == pytest.approx(expected, abs=1e-4)


def test_every_call_of_every_rollout_has_a_signal_and_the_student_moves_to_the_teacher(run: Path) -> None:
    steps = lines(run, "train")
    assert [line["step"] for line in steps] == [1, 2]
    assert all(line["kl"] > 0.001 and line["gradient"] > 0 for line in steps)
    assert all(call.advantage for record in rollouts(run, 1, "train") for call in record.calls)
    found = unpacked((run / "tokens/000001.jsonl.gz").read_bytes())
    assert found is not None
    gains = [
        (call.advantage or 0) * (sum(filter(None, call.updated or ())) - sum(filter(None, call.trainer or ())))
        for row in found.rows
        for call in row.calls
    ]
    assert sum(gains) > 0, "calls that the teacher finds likelier than the student became likelier"


def test_its_steps_can_be_replayed(run: Path) -> None:
    command = [sys.executable, "-m", "agentflow", "replay", str(run), "--step", "2"]
    subprocess.run(command, check=True)
