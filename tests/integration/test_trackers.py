"""`trainer.logger` by name: each tracker writes into the run's folder, without a network and without an account."""

import os
from pathlib import Path

import pytest

pytest.importorskip("verl", reason="the extra train is not installed")

from agentflow.rl.launch.workers import environment
from agentflow.rl.settings import compose_settings
from tests.pages import ROOT
from tests.processes import python

PROGRAM = """
from omegaconf import OmegaConf
from verl.utils.tracking import Tracking
from agentflow.rl.settings import compose_settings
import sys
name, out = sys.argv[1:]
config = compose_settings("atlas-cpu", [f"trainer.logger=[tensorboard,{name}]", f"out={out}"])
settings = OmegaConf.to_container(config, resolve=True)
tracking = Tracking(config.trainer.project_name, config.trainer.experiment_name, config.trainer.logger, settings)
assert name in tracking.logger
tracking.log({"reward": 0.5}, 1)
tracking.finish()
"""


@pytest.mark.parametrize(
    ("variable", "place"),
    [
        ("WANDB_DIR", "{out}"),
        ("MLFLOW_TRACKING_URI", "sqlite:///{out}/mlflow.db"),
        ("TRACKIO_DIR", "{out}/trackio"),
    ],
)
def test_a_tracker_writes_below_the_run_unless_the_user_names_a_place(
    variable: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = compose_settings("atlas-cpu", [f"out={tmp_path}"])
    monkeypatch.delenv(variable, raising=False)
    assert environment(config)[variable] == place.format(out=tmp_path)
    monkeypatch.setenv(variable, "elsewhere")
    assert environment(config)[variable] == "elsewhere"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kept"), [("wandb", "wandb/offline-run-*"), ("mlflow", "mlflow.db"), ("trackio", "trackio/*.db")]
)
def test_a_tracker_keeps_its_files_in_the_run(name: str, kept: str, tmp_path: Path) -> None:
    pytest.importorskip(name, reason=f"{name} is not installed")
    given = environment(compose_settings("atlas-cpu", [f"out={tmp_path}"]))
    offline = {"WANDB_MODE": "offline", "https_proxy": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9"}
    known = {key: value for key, value in os.environ.items() if not key.startswith(("WANDB", "MLFLOW", "TRACKIO"))}
    variables = {**known, **given, **offline, "PYTHONPATH": str(ROOT)}
    done = python("-c", PROGRAM, name, tmp_path, cwd=tmp_path, env=variables)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.glob(kept))
