import json
from pathlib import Path

import pytest

pytest.importorskip("verl")

import yaml
from omegaconf import OmegaConf

from agentflow.evals.run_folder import RunFolderError, read_settings
from agentflow.rl.presets.files import PRESETS, preset_text, presets
from agentflow.rl.settings import SettingsError, TrainingSettings, _multiplies_bfloat16, compose_settings
from tests.failing import fails


@pytest.mark.parametrize("preset", presets())
def test_every_preset_is_complete_and_says_how_to_start_it(preset: str) -> None:
    written, config = yaml.safe_load(preset_text(preset)), compose_settings(preset, [])
    assert TrainingSettings.of(config).preset == preset
    assert f"agentflow train --preset {preset}" in (PRESETS / f"{preset}.yaml").read_text()
    references = [name for name in written if OmegaConf.is_interpolation(config, name)]
    own = {name: value for name, value in written.items() if not isinstance(value, dict) and name not in references}
    assert len(own) > 30
    assert own == {name: config[name] for name in own}, "the text of a preset is what its files set"
    assert written["flow"]["algorithm"]["name"] == config.flow.algorithm.name


def test_settings_reach_verl_the_app_and_the_algorithm() -> None:
    ours = ["lr=0.5", "rollouts=3", "kl=0.25", "clip_high=0.4", "seed=7", "out=here", "algorithm=grpo"]
    theirs = ["actor_rollout_ref.actor.entropy_coeff=0.01", "options.max_turns=3", "options.nodes=[planner,verifier]"]
    config = compose_settings("atlas-cpu", [*ours, *theirs])
    actor = config.actor_rollout_ref.actor
    assert (actor.optim.lr, actor.kl_loss_coef, actor.clip_ratio_high, actor.entropy_coeff) == (0.5, 0.25, 0.4, 0.01)
    assert (config.actor_rollout_ref.rollout.n, config.data.seed) == (3, 7)
    assert config.trainer.default_local_dir == "here/checkpoints"
    assert config.options == {"max_turns": 3, "nodes": ["planner", "verifier"]}
    assert TrainingSettings.of(config).flow.algorithm.name == "grpo"
    assert compose_settings("qwen2.5-7b", ["options.test=held_out.jsonl"]).options.test == "held_out.jsonl"
    for options in (["options.a.b=1", "options.c=2"], ["options={a: {b: 1}, c: 2}"]):
        config = compose_settings("qwen2.5-7b", [*options, "app=my_agent:agent"])
        assert config.options == {"a": {"b": 1}, "c": 2}, "those of the preset are of another app"


WRONG = (Path(__file__).parent / "cases/settings.txt").read_text().splitlines()
"""Overrides, the code of their error, and what its line names."""


@pytest.mark.parametrize("line", WRONG)
def test_wrong_settings_are_one_clear_line(line: str) -> None:
    overrides, code, named = line.split(" | ")
    with fails(SettingsError, code, named):
        TrainingSettings.of(compose_settings("atlas-cpu", overrides.split()))


@pytest.mark.parametrize("preset", ["qwen2.5-0.5b-cpu", "smollm2-cpu"])
@pytest.mark.parametrize(("fast", "precision"), [(True, "bfloat16"), (False, "float32")])
def test_sampler_and_trainer_compute_in_what_the_processor_has(
    preset: str, fast: bool, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentflow.rl.settings._multiplies_bfloat16", lambda: fast)
    verl = compose_settings(preset, []).actor_rollout_ref
    assert verl.rollout.dtype == verl.actor.fsdp_config.mixed_precision.param_dtype == precision
    for other in ("by_device.cpu.dtype=bfloat16", "trainer.device=cuda"):
        given = compose_settings(preset, [other]).actor_rollout_ref
        assert given.rollout.dtype == given.actor.fsdp_config.mixed_precision.param_dtype == "bfloat16"


PROCESSOR = Path("/proc/cpuinfo")


@pytest.mark.skipif(not PROCESSOR.exists(), reason="only Linux lists what a processor has")
def test_the_processors_own_list_says_whether_it_multiplies_bfloat16() -> None:
    has = set(PROCESSOR.read_text().split())
    if has & {"amx_bf16", "avx512_bf16"}:
        assert _multiplies_bfloat16()
    elif "avx2" in has and "avx512f" not in has:
        assert not _multiplies_bfloat16()


def test_the_chat_template_gets_its_options() -> None:
    """`FlowAgentLoop` passes those of verl's data configuration to `ChatFormat`."""
    config = compose_settings("qwen2.5-7b", ["template_options.enable_thinking=true"])
    assert config.data.apply_chat_template_kwargs == {"enable_thinking": True}
    assert TrainingSettings.of(config).template_options == {"enable_thinking": True}
    assert compose_settings("qwen3-4b", []).data.apply_chat_template_kwargs == {"enable_thinking": False}


def test_a_run_of_another_version_is_refused(tmp_path: Path) -> None:
    settings = TrainingSettings.of(compose_settings("atlas-cpu", [])).model_dump()
    (tmp_path / "settings.json").write_text(json.dumps(settings | {"flow": settings["flow"] | {"objective": "ppo"}}))
    with fails(RunFolderError, "other_version"):
        read_settings(tmp_path, TrainingSettings)
