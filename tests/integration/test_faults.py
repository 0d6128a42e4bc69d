"""`python -m benchmarks.faults`, of sixteen rollouts: what faults leave to train on is what calm rollouts have."""

import re

import pytest

from tests.processes import python

pytest.importorskip("torch")


@pytest.mark.slow
def test_faults_poison_nothing_and_cost_only_the_rollouts_they_end() -> None:
    """Rows are compared to the bit."""
    done = python("-m", "benchmarks.faults", "--rollouts", "16", "--share", "0.4")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:5] == [
        "fails once   1 ok",
        "down         2 endpoint_failed",
        "hangs        ",
        "raises       3 endpoint_failed",
        "judge fails  1 endpoint_failed",
    ]
    [(made, kept)] = re.findall(r"answers of the policy (\d+), kept (\d+)", done.stdout)
    assert made == kept
    assert "goodput 62.5%, without faults 100.0%" in done.stdout
    assert done.stdout.splitlines()[-1] == "rollouts with poisoned rows 0"
