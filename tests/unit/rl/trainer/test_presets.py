"""Presets that cannot run here are valid for verl."""

import math

import pytest

from agentflow.rl.launch.checks import check
from agentflow.rl.presets.files import presets
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
