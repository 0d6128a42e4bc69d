"""The trainer of every preset for GPUs on a CPU, with a tiny model: everything but sampling and the weight sync."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("verl")

from tests.chat_templates import needs_templates
from tests.integration.training import trains
from tests.qwen import GPU_PRESETS, tiny_model

pytestmark = [trains, needs_templates]


@pytest.mark.parametrize("preset", GPU_PRESETS)
def test_it_is_transformers_and_what_it_trains_is_exported(preset: str, tmp_path: Path) -> None:
    family, tied, _ = GPU_PRESETS[preset]
    model = tiny_model(tmp_path / "model", family, tied=tied)
    command = [sys.executable, "-m", "tests.preset_engine", preset, str(model), str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    print(preset, found)
    assert found["trainer"] < 1.2 * found["bfloat16"], "the only difference is the rounding of bfloat16"
    assert found["gradient"] > 0
    assert found["moved"] > 2 * found["export"]
    assert found["export"] < 2 * found["bfloat16"], "an adapter that is merged is rounded once more"
