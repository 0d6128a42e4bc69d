"""The registered curve of docs/lab/learning.md, in miniature."""

from pathlib import Path

import pytest

from tests.integration.training import lines, train

pytest.importorskip("verl")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

BUDGET = [
    *("steps=6", "questions=12", "rollouts=4", "train_tasks=4000", "seed=0", "validate_every=6", "save_every=6"),
    *("test_tasks=48", "validation_rollouts=4", "rollout_seconds=600"),
]
REGISTERED = 0.05
"""Rise of the held-out accuracy after 288 rollouts."""


def test_the_held_out_accuracy_rises_as_registered(tmp_path: Path) -> None:
    train(tmp_path / "run", *BUDGET)
    before, after = (line["accuracy"] for line in lines(tmp_path / "run", "test"))
    assert after >= before + REGISTERED
