"""The resources that a run needs are computed, and refused, before anything starts."""

from functools import lru_cache
from typing import cast

import pytest

pytest.importorskip("hydra")
pytest.importorskip("verl")

from omegaconf import DictConfig, OmegaConf

from agentflow.rl import room
from agentflow.rl.preset_files import presets
from agentflow.rl.settings import SettingsError, compose_settings
from tests.failing import fails


@lru_cache
def composed(preset: str, *overrides: str) -> DictConfig:
    return compose_settings(preset, list(overrides))


def changed(config: DictConfig, setting: str) -> DictConfig:
    """A copy with another value: composing anew takes a second."""
    return cast(DictConfig, OmegaConf.merge(config, OmegaConf.from_dotlist([setting])))


@pytest.mark.parametrize("preset", presets())
def test_a_ray_of_its_own_has_a_place_for_every_process(preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room.os, "sched_getaffinity", lambda pid: {0, 1})
    config = composed(preset)
    assert room.ray_options(config)["num_cpus"] >= room.places(config) > 3 * config.trainer.n_gpus_per_node


def test_more_ranks_need_more_places(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = (changed(composed("atlas-cpu"), f"trainer.n_gpus_per_node={ranks}") for ranks in (1, 2))
    assert room.places(two) == room.places(one) + 3
    assert room.ray_options(two)["num_gpus"] == 2


def test_too_few_places_are_refused_with_both_numbers() -> None:
    config = composed("qwen2.5-7b-lora", "ray_kwargs.ray_init.num_cpus=5")
    with fails(SettingsError, "too_few_cpus", room.places(config), 5):
        room.ray_options(config)


def test_a_cluster_that_is_too_small_is_refused() -> None:
    room.check_room(13, 13.0)
    with fails(SettingsError, "too_few_cpus", 13, 12):
        room.check_room(13, 12.0)


@pytest.mark.parametrize("preset", presets())
def test_the_masks_of_a_preset_fit_beside_its_rows(preset: str) -> None:
    config = composed(preset)
    room.check_masks(config)
    actor = config.actor_rollout_ref.actor
    if actor.use_dynamic_bsz:
        assert actor.ppo_max_token_len_per_gpu >= config.prompt_tokens + config.response_tokens


@pytest.mark.parametrize(
    "key",
    ["actor.ppo_max_token_len_per_gpu", "ref.log_prob_max_token_len_per_gpu", "rollout.log_prob_max_token_len_per_gpu"],
)
def test_a_mask_that_cannot_fit_is_refused(key: str) -> None:
    long = changed(composed("atlas-gpu"), f"actor_rollout_ref.{key}=131072")
    with fails(SettingsError, "mask_too_large", key):
        room.check_masks(long)
    flash = "actor_rollout_ref.model.override_config.attn_implementation=flash_attention_2"
    room.check_masks(changed(long, flash))


def test_flash_attention_is_refused_where_flash_attn_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    config = composed("qwen2.5-7b")
    monkeypatch.setattr(room, "find_spec", lambda name: None)
    room.check_attention(config)
    flash = changed(config, "actor_rollout_ref.model.override_config.attn_implementation=flash_attention_2")
    with fails(SettingsError, "no_flash_attn", "flash-attn", "attn_implementation=sdpa"):
        room.check_attention(flash)
    monkeypatch.setattr(room, "find_spec", lambda name: name)
    room.check_attention(flash)
