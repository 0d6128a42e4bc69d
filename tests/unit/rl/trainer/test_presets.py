"""Presets that cannot run here are valid for verl."""

import math
from collections.abc import Iterator
from typing import Any

import pytest

from agentflow.rl.launch.checks import check
from agentflow.rl.presets.files import presets, settings_of
from agentflow.rl.settings import compose_settings


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("preset", presets())
def test_verl_accepts_it(preset: str) -> None:
    check(compose_settings(preset, []))


def test_the_paper_preset_has_the_papers_settings() -> None:
    config = compose_settings("qwen2.5-7b", [])
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    assert (config.data.train_batch_size, rollout.n, actor.optim.lr) == (32, 8, 1e-6)
    assert (actor.kl_loss_coef, actor.kl_loss_type) == (0.001, "low_var_kl+")
    assert (actor.clip_ratio_low, actor.clip_ratio_high) == (0.2, 0.3)
    assert rollout.prompt_length + rollout.response_length == 18432 + 2048
    assert (config.options.max_tokens, config.options.max_turns) == (2048, 3)
    assert (config.flow.updates, math.ceil(config.questions / actor.ppo_mini_batch_size)) == (None, 11)


def test_the_preset_for_two_cores_is_that_for_a_gpu_but_for_device_weights_tasks_and_sizes() -> None:
    files = [settings_of(name) for name in ("qwen2.5-7b-lora", "cpu", "qwen2.5-0.5b-cpu")]
    gpu, device, own = ({name for name, _ in flat(file)} for file in files)
    found, other = (dict(flat(settings_of(name))) for name in ("qwen2.5-0.5b-cpu", "qwen2.5-7b-lora"))
    changed = {name for name in found if name in gpu | own and found[name] != other.get(name)} - device
    assert {name for name in changed if "." in name and not name.startswith("options.")} == {
        "by_device.cpu.dtype",
        "actor_rollout_ref.actor.ppo_mini_batch_size",
        "actor_rollout_ref.actor.use_kl_loss",
    }
    assert {"app", "clip_low", "clip_high", "temperature"} & changed == set()
    assert {name for name in changed if name.startswith(("flow.", "actor_rollout_ref.model."))} == set()


def flat(settings: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if isinstance(value, dict) and value:
            yield from flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value
