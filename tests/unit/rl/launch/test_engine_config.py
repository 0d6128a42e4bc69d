"""What follows from the choice of the rollout engine, and the CPUs that Ray is asked for."""

import pytest

pytest.importorskip("verl")

from omegaconf import DictConfig

from agentflow.rl.launch import engine_config as engine
from agentflow.rl.presets.files import presets
from agentflow.rl.settings import compose_settings
from tests.cases import table
from tests.unit.rl.configs import composed

VLLM = "actor_rollout_ref.rollout.name=vllm"


def completed(preset: str, *overrides: str) -> DictConfig:
    config = compose_settings(preset, list(overrides))
    engine.complete(config)
    return config


@pytest.mark.parametrize(
    ("override", "length"),
    [("seed=1", 20480), ("prompt_tokens=100", 16484), ("actor_rollout_ref.rollout.max_model_len=7", 7)],
)
def test_the_context_length_follows_the_budgets_of_tokens_unless_it_is_set(override: str, length: int) -> None:
    assert completed("qwen2.5-7b", override).actor_rollout_ref.rollout.max_model_len == length


@pytest.mark.parametrize(("override", "tokens"), [("prompt_tokens=20000", 20000 + 1600), ("seed=1", 8192)])
def test_a_batch_of_rows_has_room_for_the_longest(override: str, tokens: int) -> None:
    verl = completed("atlas-cpu", override).actor_rollout_ref
    lengths = [one.log_prob_max_token_len_per_gpu for one in (verl.ref, verl.rollout)]
    assert [verl.actor.ppo_max_token_len_per_gpu, *lengths] == [tokens] * 3


@pytest.mark.parametrize(("preset", "overrides", "cores", "expected"), table(__file__, "concurrency.txt"))
def test_rollouts_at_once_are_those_that_the_engines_batch_or_the_cores_bear(
    preset: str, overrides: list[str], cores: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine.os, "sched_getaffinity", lambda process: set(range(cores)))
    assert engine.concurrency(compose_settings(preset, overrides)) == expected


@pytest.mark.parametrize("ranks", [1, 2])
def test_rows_of_several_ranks_on_a_cpu_are_computed_by_themselves(ranks: int) -> None:
    # Ranks that shared prefixes called their layers unequally often, and waited for each other without end.
    config = completed("atlas-cpu", f"trainer.n_gpus_per_node={ranks}")
    actor, ref, rollout = (config.actor_rollout_ref[name] for name in ("actor", "ref", "rollout"))
    by_tokens = {actor.use_dynamic_bsz, ref.log_prob_use_dynamic_bsz, rollout.log_prob_use_dynamic_bsz}
    assert by_tokens == {ranks == 1}
    sizes = (actor.ppo_micro_batch_size_per_gpu, ref.log_prob_micro_batch_size_per_gpu)
    assert sizes == ((None, None) if ranks == 1 else (1, 1))


@pytest.mark.parametrize(
    ("preset", "overrides", "sleeps"),
    [
        ("atlas-cpu", [VLLM], False),
        ("atlas-cpu-vllm", [], False),
        ("qwen2.5-7b", ["trainer.device=cpu"], False),
        ("qwen2.5-7b", [], True),
    ],
)
def test_vllm_sleeps_and_records_graphs_only_on_a_gpu(preset: str, overrides: list[str], sleeps: bool) -> None:
    rollout = compose_settings(preset, overrides).actor_rollout_ref.rollout
    assert (rollout.enable_sleep_mode, rollout.free_cache_engine, rollout.enforce_eager) == (sleeps, sleeps, not sleeps)
    assert rollout.dtype == ("bfloat16" if sleeps else "float32")


@pytest.mark.parametrize("preset", presets())
def test_every_preset_corrects_for_the_policy_that_sampled(preset: str) -> None:
    """By the ratio of its loss, or by importance weights."""
    correction = compose_settings(preset, ["start=model"]).algorithm.rollout_correction
    assert correction.bypass_mode or correction.rollout_is == "token"


def test_a_supervised_loss_needs_no_reference_and_no_importance_weights() -> None:
    config = completed("qwen2.5-7b", "algorithm=sft")
    assert not config.actor_rollout_ref.actor.use_kl_loss
    assert config.algorithm.rollout_correction == {"bypass_mode": True}


def test_the_environment_of_vllm_is_the_users_where_it_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "7")
    found = engine.environment(compose_settings("atlas-cpu-vllm", []))
    assert found["VLLM_CPU_KVCACHE_SPACE"] == "7"
    assert found["VLLM_NO_USAGE_STATS"] == "1"
    assert "VLLM_CPU_KVCACHE_SPACE" not in engine.environment(compose_settings("qwen2.5-7b", []))
    assert engine.environment(compose_settings("atlas-cpu", [])) == {}


@pytest.mark.parametrize("preset", presets())
def test_a_ray_of_its_own_has_a_place_for_every_process(preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.os, "sched_getaffinity", lambda pid: {0, 1})
    config = composed(preset)
    assert engine.ray_options(config)["num_cpus"] >= engine.places(config) > 3 * config.trainer.n_gpus_per_node
