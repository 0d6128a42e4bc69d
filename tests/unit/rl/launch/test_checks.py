"""What may not run is refused before anything starts."""

from contextlib import nullcontext
from pathlib import Path

import pytest

pytest.importorskip("verl")

from agentflow.rl.launch import checks
from agentflow.rl.launch.local_policy import folder_of
from agentflow.rl.micro.chat_model import SEED
from agentflow.rl.settings import SettingsError, compose_settings
from agentflow.rl.trainer import vllm_cpu
from tests.failing import fails
from tests.unit.rl.configs import changed, composed

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


@pytest.mark.parametrize(
    ("logger", "variables", "code"),
    [
        ("[tensorboard,console]", {}, ""),
        ("wandb", {"WANDB_API_KEY": "k"}, ""),
        ("[tensorboard,wandb]", {"WANDB_MODE": "offline"}, ""),
        ("[tensorboard,wandb]", {}, "no_key"),
        ("[wamdb]", {}, "no_logger"),
        ("[clearml]", {}, "not_installed"),
    ],
)
def test_trackers(
    logger: str, variables: dict[str, str], code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WANDB_API_KEY", "WANDB_MODE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": str(tmp_path), **variables}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / ".netrc").write_bytes(b"machine caf\xe9 login ada")
    monkeypatch.setattr(checks, "find_spec", lambda name: None if name == "clearml" else object())
    with fails(SettingsError, code) if code else nullcontext():
        checks.check_trackers(compose_settings("atlas-cpu", [f"trainer.logger={logger}"]))


def test_a_rehearsal_has_the_tokenizer_that_was_downloaded_from_a_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    config = compose_settings("smollm2-cpu", [])
    checked = checks.check(config)
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *_: str(SEED / "tokenizer_config.json"))
    assert checks._format(config, checked) is not None


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


def test_the_folder_of_a_model_is_named_or_that_of_an_embedded_one(tmp_path: Path) -> None:
    assert folder_of("embedded") == folder_of("embedded:seed") == SEED
    assert folder_of(f"embedded:{tmp_path}") == folder_of(str(tmp_path)) == tmp_path
