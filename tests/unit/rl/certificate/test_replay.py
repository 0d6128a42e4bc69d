"""Replayed steps are compared with the recorded ones; a stand-in takes the trainer's place."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hydra")
pytest.importorskip("verl")

import torch
from omegaconf import DictConfig
from safetensors.torch import save_file

from agentflow.rl.certificate import replay as replaying
from agentflow.rl.certificate.contents import Contents
from agentflow.rl.certificate.errors import CertificateError
from agentflow.rl.certificate.replay import LOSS_BOUND, ROUNDED, WEIGHT_BOUND, Replayed, replay
from agentflow.rl.certificate.segments import Segment
from agentflow.rl.launch import TrainingFailed
from agentflow.rl.settings import SettingsError
from agentflow.rl.training_log import TrainingLog
from tests.failing import fails
from tests.unit.rl.certificate.runs import KERNELS, edit_lines, write_start

OTHER = KERNELS.model_copy(update={"torch": "AVX512"})
GPU = KERNELS.model_copy(update={"device": "H100"})


class Trainer:
    """Leaves what a training of one step would, and keeps its configuration."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.config: Any = None
        self.start: dict[str, Any] = {}
        self.metrics: dict[str, Any] = {"batch": "ba7c", "actor/kl": 0.25}
        self.weight = 0.5
        self.error: Exception | None = None

    def __call__(self, config: DictConfig, on_line: Callable[[Mapping[str, Any]], None]) -> None:
        self.config = config
        if self.error:
            raise self.error
        out = Path(config.out)
        write_start(out, **self.start)
        shutil.copy(self.run / "settings.json", out)
        TrainingLog(out).step(1, self.metrics, {"step": 1.0})
        folder = out / "checkpoints/global_step_1/actor/huggingface"
        folder.mkdir(parents=True)
        tensors = {"w": torch.full((2, 2), 0.5), "b": torch.zeros(2)}
        tensors["w"][0, 0] = self.weight
        save_file(tensors, folder / "model.safetensors")
        on_line({})


@pytest.fixture
def trainer(run: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Trainer:
    stand_in = Trainer(shutil.copytree(run, tmp_path / "as it was"))
    monkeypatch.setattr(replaying, "train_composed", stand_in)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    return stand_in


def repeated(run: Path, certified: Contents) -> Replayed:
    return replay(run, certified, Segment(0, 1))


def test_an_honest_step_is_the_same(run: Path, certified: Contents, trainer: Trainer) -> None:
    found = repeated(run, certified)
    assert found.differences == found.kernels == []
    assert found.exact
    assert found.weights is not None
    assert found.weights.largest == 0
    assert not Path(trainer.config.out).exists(), "the folder of the replay is removed"


def test_the_trainer_plays_the_recorded_rollouts_with_the_runs_threads(
    run: Path, certified: Contents, trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    repeated(run, certified)
    assert trainer.config.replay_from == str(run)
    assert trainer.config.lr == 0.1, "the recorded configuration"
    assert trainer.config.start == str(run.parent / "seed")
    assert replaying.os.environ["OMP_NUM_THREADS"] == str(KERNELS.threads)
    replay(run, certified, Segment(0, 1), sample=True)
    assert trainer.config.replay_from == ""


def test_another_batch_is_named(run: Path, certified: Contents, trainer: Trainer) -> None:
    trainer.metrics["batch"] = "other"
    assert repeated(run, certified).differences == ["step 1 replayed: batch"]


def test_a_step_that_was_not_repeated_is_named(run: Path, certified: Contents, trainer: Trainer) -> None:
    trainer.metrics = {}
    named = repeated(run, certified).differences
    assert [name.partition(": ")[2].split()[0] for name in named] == ["batch", "kl"]


def test_another_loss_is_named(run: Path, certified: Contents, trainer: Trainer) -> None:
    trainer.metrics["actor/kl"] = 0.250001
    [named] = repeated(run, certified).differences
    assert "kl 0.250001" in named


def test_a_weight_that_differs_in_its_last_bit_is_named(run: Path, certified: Contents, trainer: Trainer) -> None:
    trainer.weight = 0.5 + 2**-24
    [named] = repeated(run, certified).differences
    assert named.startswith("weights of step 1 replayed")


@pytest.mark.parametrize("kernels", [OTHER, GPU])
def test_other_kernels_may_differ_within_the_bounds(
    run: Path, certified: Contents, trainer: Trainer, kernels: Any
) -> None:
    change = 1.0  # four weights that change by 0.5
    trainer.start = {"kernels": kernels}
    trainer.weight, trainer.metrics["actor/kl"] = 0.5 + 0.9 * WEIGHT_BOUND * change, 0.25 * (1 + 0.9 * LOSS_BOUND)
    found = repeated(run, certified)
    assert not found.exact
    assert found.kernels
    assert found.differences == []
    assert found.weights is not None
    assert found.weights.share == pytest.approx(0.9 * WEIGHT_BOUND, rel=1e-3)
    trainer.weight = 0.5 + 1.1 * WEIGHT_BOUND * change
    trainer.metrics["actor/kl"] = 0.25 * (1 + 1.1 * LOSS_BOUND) + 2 * ROUNDED
    assert len(repeated(run, certified).differences) == 2


def test_the_batch_must_be_the_same_with_any_kernels(run: Path, certified: Contents, trainer: Trainer) -> None:
    trainer.start, trainer.metrics["batch"] = {"kernels": OTHER}, "other"
    assert repeated(run, certified).differences == ["step 1 replayed: batch"]


def test_other_code_is_named(run: Path, certified: Contents, trainer: Trainer) -> None:
    trainer.start = {"code": {"agentflow": "0", "mine": "1"}}
    assert repeated(run, certified).differences == [
        "replayed with: code of agentflow",
        "replayed with: code of mine (added)",
    ]


def test_a_setting_that_the_run_did_not_have_is_named(run: Path, certified: Contents, trainer: Trainer) -> None:
    """The configuration is what is replayed; settings.json must say the same."""
    edit_lines(run / "settings.json", lambda settings: settings.update(lr=0.5))
    assert repeated(run, certified).differences == ["replayed with: setting lr"]


def test_a_later_step_begins_from_the_checkpoint_before(run: Path, certified: Contents, trainer: Trainer) -> None:
    trainer.error = TrainingFailed("stopped")
    (run / "replay/000002-train.jsonl").touch()
    with fails(CertificateError, "replay_failed", "stopped"):
        replay(run, certified, Segment(1, 2))
    begun = Path(trainer.config.out) / "checkpoints"
    assert (begun / "latest_checkpointed_iteration.txt").read_text() == "1"
    assert (begun / "global_step_1/data.pt").is_file()
    assert trainer.config.keep > 2, "verl would delete the run's checkpoint"


def test_settings_that_cannot_be_used_here_are_said(run: Path, certified: Contents, trainer: Trainer) -> None:
    trainer.error = SettingsError("no GPU", code="no_gpu")
    with fails(CertificateError, "no_gpu", "no GPU"):
        repeated(run, certified)


def test_a_run_without_recorded_responses_can_only_be_sampled_anew(
    run: Path, certified: Contents, trainer: Trainer
) -> None:
    shutil.rmtree(run / "replay")
    with fails(CertificateError, "no_logs", run):
        repeated(run, certified)
    assert replay(run, certified, Segment(0, 1), sample=True).differences == []


def test_rollouts_that_met_new_weights_are_not_sampled_anew(run: Path, certified: Contents, trainer: Trainer) -> None:
    settings = json.loads((run / "settings.json").read_text())
    (run / "settings.json").write_text(json.dumps(settings | {"max_staleness": 1}))
    with fails(CertificateError, "not_repeatable", "max_staleness=1"):
        replay(run, certified, Segment(0, 1), sample=True)
    assert repeated(run, certified).steps[0].batch


def test_weights_without_a_certified_checkpoint_are_not_compared(
    run: Path, certified: Contents, trainer: Trainer
) -> None:
    none = certified.model_copy(update={"checkpoints": {}})
    found = repeated(run, none)
    assert found.weights is None
    assert found.differences == []
