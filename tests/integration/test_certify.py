"""A real training, certified and verified by repeating its steps, also with other kernels."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("verl")
pytest.importorskip("cryptography")

from agentflow.rl.certificate.replay import WEIGHT_BOUND
from benchmarks.certificates import BASELINE
from tests.integration.training import train

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "certified"
    train(out, "steps=2")
    command = [sys.executable, "-m", "agentflow", "certify", str(out), "--key", str(out.parent / "key.pem")]
    subprocess.run(command, check=True, timeout=300)
    return out


def verified(run: Path, *options: str, code: int = 0, **environment: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "agentflow", "verify", str(run / "certificate.json"), "--json", *options]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=1500, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def key(run: Path) -> str:
    return str(verified(run)["key"])


def test_repeated_steps_have_the_same_bits(run: Path, key: str) -> None:
    found = verified(run, "--steps", "1,2", "--key", key)
    assert [one["kernels"] for one in found["replayed"]] == [[], []]
    assert [one["weights"] for one in found["replayed"]] == [{"share": 0.0, "largest": 0.0}] * 2


def test_rollouts_that_are_sampled_anew_are_the_recorded_ones(run: Path, key: str) -> None:
    found = verified(run, "--steps", "1", "--key", key, "--sample")
    assert found["replayed"][0]["steps"][0]["batch"]


def test_other_kernels_stay_within_the_bounds(run: Path, key: str) -> None:
    found = verified(run, "--steps", "1,2", "--key", key, **BASELINE)
    for one in found["replayed"]:
        assert one["kernels"]
        assert [step["batch"] for step in one["steps"]] == [True]
        assert 0 < one["weights"]["share"] < WEIGHT_BOUND


def test_an_update_with_another_setting_is_found(run: Path, key: str, tmp_path: Path) -> None:
    """A signer cannot certify what the code does not do: here, a learning rate that the run did not have."""
    forged = tmp_path / "forged"
    shutil.copytree(run, forged)
    for name in ("starts.jsonl", "settings.json"):
        content = (forged / name).read_text()
        assert content.count('"lr": 0.0003,') == 1
        (forged / name).write_text(content.replace('"lr": 0.0003,', '"lr": 0.00031,'))
    signer = ["--key", str(run.parent / "key.pem")]
    subprocess.run([sys.executable, "-m", "agentflow", "certify", str(forged), *signer], check=True, timeout=300)
    found = verified(forged, "--steps", "1", "--key", key, code=1)
    assert found["differs"] == [name for name in found["differs"] if name.startswith("weights of step 1")] != []
