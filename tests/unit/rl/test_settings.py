import json
from contextlib import nullcontext
from pathlib import Path

import pytest

pytest.importorskip("hydra")
pytest.importorskip("verl")

import yaml
from omegaconf import OmegaConf

from agentflow.evals.run_folder import RunFolderError, read_settings
from agentflow.rl.presets.files import PRESETS, preset_text, presets
from agentflow.rl.settings import SettingsError, TrainingSettings, compose_settings
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


def test_settings_reach_verl() -> None:
    config = compose_settings("atlas-cpu", ["lr=0.5", "rollouts=3", "kl=0.25", "clip_high=0.4", "seed=7", "out=here"])
    actor = config.actor_rollout_ref.actor
    assert (actor.optim.lr, actor.kl_loss_coef, actor.clip_ratio_high) == (0.5, 0.25, 0.4)
    assert (config.actor_rollout_ref.rollout.n, config.data.seed) == (3, 7)
    assert config.trainer.default_local_dir == "here/checkpoints"


def test_an_app_may_have_any_option() -> None:
    config = compose_settings("atlas-cpu", ["options.max_turns=3", "options.nodes=[planner,verifier]"])
    assert config.options == {"max_turns": 3, "nodes": ["planner", "verifier"]}
    assert compose_settings("qwen2.5-7b", ["options.test=held_out.jsonl"]).options.test == "held_out.jsonl"


def test_verls_own_keys_and_the_algorithm_can_be_set() -> None:
    config = compose_settings("atlas-cpu", ["actor_rollout_ref.actor.entropy_coeff=0.01", "algorithm=rloo"])
    assert config.actor_rollout_ref.actor.entropy_coeff == 0.01
    assert TrainingSettings.of(config).flow.algorithm.name == "rloo"


@pytest.mark.parametrize(
    ("overrides", "code", "named"),
    [
        ("flow.update=1", "refused", "'flow.updates'"),
        ("actor_rollout_ref.rollout.nme=vllm", "refused", "'actor_rollout_ref.rollout.name'"),
        ("actor_rollout_ref.rollout.limit_images=2", "refused", "+actor_rollout_ref.rollout.limit_images=2"),
        ("actor_rollout_ref.model.override_config.x=2", "refused", "+actor_rollout_ref.model.override_config.x=2"),
        (
            "actor_rollout_ref.rollout.engine_kwargs.vllm.x=2",
            "refused",
            "+actor_rollout_ref.rollout.engine_kwargs.vllm",
        ),
        ("algorithm=reinforce", "unknown_algorithm", "flow-grpo, "),
        ("algorithm=gepa", "unknown_algorithm", "agentflow prompts"),
        ("algorithm=gigpo", "unknown_algorithm", "flow-grpo, "),
        ("flow.algorithm.clip=1", "bad_value", "flow.algorithm.clip=1"),
        ("flow.algorithm.penalty=-1", "bad_value", "flow.algorithm.penalty=-1"),
        ("steps", "bad_override", "'steps'"),
        ("rollouts=1", "bad_value", "rollouts=1"),
        ("rollouts=0 algorithm=sft", "bad_value", "rollouts=0"),
        ("flow.algorithm.teacher=embedded", "bad_value", "flow.algorithm.teacher=embedded"),
        ("algorithm=sft flow.algorithm.accept=0", "bad_value", "flow.algorithm.accept=0"),
        ("flow.objective=gspo", "refused", "flow.objective"),
        ("questions=9 train_tasks=8", "too_few_tasks", "train_tasks=8"),
        ("app=planner", "bad_value", "app=planner"),
        ("start=???", "missing_setting", "start"),
    ],
)
def test_wrong_settings_are_one_clear_line(overrides: str, code: str, named: str) -> None:
    with fails(SettingsError, code, named):
        TrainingSettings.of(compose_settings("atlas-cpu", overrides.split()))


def test_the_chat_template_gets_its_options() -> None:
    """`FlowAgentLoop` passes those of verl's data configuration to `ChatFormat`."""
    config = compose_settings("qwen2.5-7b", ["template_options.enable_thinking=true"])
    assert config.data.apply_chat_template_kwargs == {"enable_thinking": True}
    assert TrainingSettings.of(config).template_options == {"enable_thinking": True}
    assert compose_settings("qwen3-4b", []).data.apply_chat_template_kwargs == {"enable_thinking": False}


@pytest.mark.parametrize(
    ("policies", "objective", "readable"),
    [({}, "ppo", True), ({"a": ["x"], "b": ["y"]}, "ppo", False), ({}, "gspo", False)],
)
def test_a_run_of_before_is_read_or_refused(
    policies: dict[str, list[str]], objective: str, readable: bool, tmp_path: Path
) -> None:
    settings = TrainingSettings.of(compose_settings("atlas-cpu", [])).model_dump()
    flow = settings["flow"] | {"objective": objective}
    before = settings | {"app": "agentflow.rl.planner:atlas", "weights": "separate", "policies": policies, "flow": flow}
    (tmp_path / "settings.json").write_text(json.dumps(before))
    with nullcontext() if readable else fails(RunFolderError, "other_version"):
        assert read_settings(tmp_path, TrainingSettings).app == settings["app"]
