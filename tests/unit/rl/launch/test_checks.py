"""What may not run is refused before anything starts."""

from contextlib import nullcontext
from functools import lru_cache
from pathlib import Path
from typing import cast

import pytest

pytest.importorskip("hydra")
pytest.importorskip("verl")

from omegaconf import DictConfig, OmegaConf

from agentflow.rl.launch import checks
from agentflow.rl.launch import engine_config as engine
from agentflow.rl.presets.files import presets
from agentflow.rl.settings import SettingsError, compose_settings
from agentflow.rl.trainer import vllm_cpu
from tests.failing import fails

VLLM = "actor_rollout_ref.rollout.name=vllm"


@pytest.mark.parametrize(
    ("preset", "override", "code", "named"),
    [
        ("atlas-cpu", VLLM, "seeds_on_cpu", "seed_requests=false"),
        ("qwen2.5-7b", "seed_requests=true", "", ""),
        # An engine that sleeps while the trainer computes cannot sample then.
        ("qwen2.5-7b", "max_staleness=1", "engine_sleeps", "free_cache_engine=false"),
    ],
)
def test_engines(preset: str, override: str, code: str, named: str) -> None:
    with fails(SettingsError, code, named) if code else nullcontext():
        checks.check_engine(compose_settings(preset, [override]))


def test_an_engine_that_is_missing_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_cpu, "installed", lambda: False)
    monkeypatch.setattr(checks, "find_spec", lambda name: None)
    for preset, extra in (("atlas-cpu-vllm", "[vllm-cpu]"), ("qwen2.5-7b", "[gpu]")):
        with fails(SettingsError, "no_engine", extra):
            checks.check_installed(compose_settings(preset, []))
    checks.check_installed(compose_settings("atlas-cpu", []))


def test_a_package_that_breaks_vllm_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_cpu, "installed", lambda: True)
    reason = "operator torchvision::nms does not exist"
    (tmp_path / "torchvision.py").write_text(f"raise RuntimeError('{reason}')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with fails(SettingsError, "does_not_fit", reason, "pip uninstall torchvision torchcodec"):
        checks.check_installed(compose_settings("atlas-cpu-vllm", []))


@lru_cache
def composed(preset: str, *overrides: str) -> DictConfig:
    return compose_settings(preset, list(overrides))


def changed(config: DictConfig, setting: str) -> DictConfig:
    """A copy with another value: composing anew takes a second."""
    return cast(DictConfig, OmegaConf.merge(config, OmegaConf.from_dotlist([setting])))


def test_too_few_places_are_refused_with_both_numbers() -> None:
    config = composed("qwen2.5-7b-lora", "ray_kwargs.ray_init.num_cpus=5")
    with fails(SettingsError, "too_few_cpus", engine.places(config), 5):
        checks.check_room(engine.places(config), engine.ray_options(config)["num_cpus"])
    checks.check_room(13, 13.0)


@pytest.mark.parametrize("preset", presets())
def test_the_masks_of_a_preset_fit_beside_its_rows(preset: str) -> None:
    config = composed(preset)
    checks.check_masks(config)
    actor = config.actor_rollout_ref.actor
    if actor.use_dynamic_bsz:
        assert actor.ppo_max_token_len_per_gpu >= config.prompt_tokens + config.response_tokens


FLASH = "actor_rollout_ref.model.override_config.attn_implementation=flash_attention_2"


@pytest.mark.parametrize("key", ["actor.ppo_max", "ref.log_prob_max", "rollout.log_prob_max"])
def test_a_mask_that_cannot_fit_is_refused(key: str) -> None:
    long = changed(composed("atlas-gpu"), f"actor_rollout_ref.{key}_token_len_per_gpu=131072")
    with fails(SettingsError, "mask_too_large", f"{key}_token_len_per_gpu"):
        checks.check_masks(long)
    checks.check_masks(changed(long, FLASH))


def test_flash_attention_is_refused_where_flash_attn_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    config = composed("qwen2.5-7b")
    monkeypatch.setattr(checks, "find_spec", lambda name: None)
    checks.check_attention(config)
    flash = changed(config, FLASH)
    with fails(SettingsError, "no_flash_attn", "flash-attn", "attn_implementation=sdpa"):
        checks.check_attention(flash)
    monkeypatch.setattr(checks, "find_spec", lambda name: name)
    checks.check_attention(flash)
