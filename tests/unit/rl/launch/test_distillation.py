"""The teacher of on-policy distillation."""

import shutil
from pathlib import Path

import pytest

pytest.importorskip("verl")

from omegaconf import DictConfig

from agentflow.rl.launch import engine_config as engine
from agentflow.rl.launch.checks import add_teacher, teacher_folder
from agentflow.rl.micro.chat_model import SEED, TRAINED
from agentflow.rl.settings import SettingsError, TrainingSettings, compose_settings
from tests.failing import fails


def composed(*settings: str) -> tuple[DictConfig, TrainingSettings]:
    config = compose_settings("atlas-cpu", ["algorithm=opd", *settings])
    return config, TrainingSettings.of(config)


def test_a_teacher_is_an_embedded_model_or_a_folder(tmp_path: Path) -> None:
    assert teacher_folder("embedded") == teacher_folder("embedded:trained") == TRAINED
    assert teacher_folder("embedded:seed") == SEED
    assert teacher_folder(f"embedded:{tmp_path}") == teacher_folder(str(tmp_path)) == tmp_path


def test_the_reference_model_is_the_teacher_and_is_loaded() -> None:
    config, settings = composed("rollouts=1", "actor_rollout_ref.actor.use_kl_loss=false")
    engine.complete(config)
    add_teacher(config, settings, SEED)
    assert config.actor_rollout_ref.teacher == str(TRAINED)
    assert config.actor_rollout_ref.actor.use_kl_loss


def test_other_algorithms_have_none() -> None:
    config = compose_settings("atlas-cpu", [])
    add_teacher(config, TrainingSettings.of(config), SEED)
    assert "teacher" not in config.actor_rollout_ref


def test_one_rollout_is_enough_without_a_reward_only() -> None:
    composed("rollouts=1")
    with fails(SettingsError, "bad_value", "opd"):
        composed("rollouts=1", "flow.algorithm.reward_weight=0.5")


def test_another_tokenizer_is_refused(tmp_path: Path) -> None:
    teacher = shutil.copytree(TRAINED, tmp_path / "teacher")
    for file in (teacher / "tokenizer.json", teacher / "tokenizer_config.json"):
        file.write_text(file.read_text().replace("<|im_end|>", "<|the_end|>"))
    config, settings = composed(f"flow.algorithm.teacher={teacher}")
    with fails(SettingsError, "other_tokenizer", str(teacher)):
        add_teacher(config, settings, SEED)


@pytest.mark.parametrize(
    ("changed", "policy", "code"),
    [
        ("flow.algorithm.teacher=embedded:nobody", SEED, "no_teacher"),
        ("flow.algorithm.teacher=openai:gpt-4o-mini", SEED, "no_teacher"),
        ("actor_rollout_ref.model.lora_rank=4", SEED, "no_reference"),
        ("seed=1", SEED / "nowhere", "no_folder"),
    ],
)
def test_what_cannot_teach_or_be_taught_is_refused(changed: str, policy: Path, code: str) -> None:
    config, settings = composed(changed)
    with fails(SettingsError, code):
        add_teacher(config, settings, policy)
