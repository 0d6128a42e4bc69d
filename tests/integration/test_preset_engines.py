"""The trainer of every preset for GPUs on a CPU, with a tiny model: everything but sampling and the weight sync."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("verl")

from tests.chat_templates import needs_templates
from tests.integration.training import trains
from tests.processes import python
from tests.qwen import GPU_PRESETS, tiny_model

pytestmark = [trains, needs_templates]


def updated(preset: str, out: Path, *overrides: str) -> dict[str, Any]:
    """Train a tiny model of a preset's architecture for one update, in a process of its own."""
    family, tied, _ = GPU_PRESETS[preset]
    model = tiny_model(out / "model", family, tied=tied)
    done = python("-m", "tests.preset_engine", preset, model, out / "run", *overrides)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("preset", GPU_PRESETS)
def test_it_is_transformers_and_what_it_trains_is_exported(preset: str, tmp_path: Path) -> None:
    found = updated(preset, tmp_path)
    assert found["trainer"] < 1.2 * found["bfloat16"], "the only difference is the rounding of bfloat16"
    assert found["gradient"] > 0
    assert found["moved"] > 2 * found["export"]
    assert found["export"] < 2 * found["bfloat16"], "an adapter that is merged is rounded once more"


def test_a_frozen_base_in_bfloat16_changes_no_bit_of_an_update(tmp_path: Path) -> None:
    halved = updated("qwen2.5-7b-lora", tmp_path / "halved")
    single = "actor_rollout_ref.model.external_lib=agentflow.rl.trainer.fused_head"
    whole = updated("qwen2.5-7b-lora", tmp_path / "whole", single)
    assert halved["trained"] == whole["trained"]
    assert halved["checkpoint"] < whole["checkpoint"]
