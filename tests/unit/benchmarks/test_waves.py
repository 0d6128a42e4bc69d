import json
from pathlib import Path

import pytest

from benchmarks.waves import main, rewards, tried


def test_a_schedule_is_tried_on_known_groups() -> None:
    """One group differs at once, one at its third rollout, one never."""
    groups = [[1.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0]]
    assert tried(groups, (4,)) == (12, 2)
    assert tried(groups, (2, 4)) == (10, 2)
    assert tried(groups, (2,)) == (6, 1)


def test_it_reads_trainings_and_evaluations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rollouts").mkdir()
    lines = [{"step": 1, "task": "a", "fate": "ok", "reward": float(n == 3)} for n in range(8)]
    lines.append({"step": 1, "task": "a", "fate": "timed_out", "reward": 0.0})
    (tmp_path / "rollouts" / "000001-train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert list(rewards(tmp_path)) == [[0, 0, 0, 1, 0, 0, 0, 0]]
    assert main([str(tmp_path)]) == 0
    assert "2,4,8                    4              1            4.0     50%" in capsys.readouterr().out
    tries = [{"id": "q", "sample": n, "decision": "correct" if n % 2 else "incorrect"} for n in (1, 0)]
    (tmp_path / "episodes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in tries))
    assert list(rewards(tmp_path)) == [[0.0, 1.0]]


def test_nothing_to_try_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert "no group of 8 rollouts" in capsys.readouterr().err
