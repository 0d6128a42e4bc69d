"""Training of the nodes of a LangGraph graph: `agentflow train --preset NAME [key=value ...]`.

`python -m agentflow.rl.train` is equivalent. This process composes the settings, writes the files that workers read,
starts Ray and reports progress. The training itself runs in a Ray actor, on this machine or on a cluster.
"""

import asyncio
import copy
import json
import runpy
import shlex
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

from agentflow.evals.run_folder import SETTINGS, RunFolderError, read_settings, write_settings
from agentflow.graph.models.connections import ROLLOUT_HOST
from agentflow.graph.models.loading import load_model
from agentflow.graph.models.spec import ModelError
from agentflow.graph.run.runner import Graph
from agentflow.graph.tracing.setup import TracingError, tracing
from agentflow.rl import engine
from agentflow.rl.apps import load_app
from agentflow.rl.chat_format import ChatFormat
from agentflow.rl.checkpoints import latest_step, run_lock
from agentflow.rl.distillation import add_teacher
from agentflow.rl.estimate import StepCost, cost_of
from agentflow.rl.export import TOKENIZER
from agentflow.rl.launch import TrainingFailed, launch, worker_base
from agentflow.rl.local_policy import LocalPolicy
from agentflow.rl.micro.chat_model import SEED, SHIPPED
from agentflow.rl.micro.tokenizer import MicroTokenizer
from agentflow.rl.node_paths import PolicyNameError, all_patterns, named_nodes
from agentflow.rl.preview import Preview, notes, obstacles, play, rehearse
from agentflow.rl.rollout import RolloutStatus
from agentflow.rl.settings import SettingsError, TrainingSettings, compose_settings
from agentflow.rl.template import TemplateError, load_tokenizer
from agentflow.rl.trainable import AppError, Split, Trainable
from agentflow.rl.trainer.vllm_cpu import answer_for_vllm
from agentflow.rl.training_log import Line, TrainingLog

CHANGEABLE = {
    *("steps", "validate_every", "save_every", "keep", "test_tasks"),
    *("ray_address", "ray_seconds", "sync_seconds", "out", "tracing", "replay_logs", "seed_requests"),
    *("rollout_tries", "token_groups", "rehearsal", "preview", "alarm"),
}
"""Settings that may change when a run resumes."""


PREVIEWED = 2
"""Rollouts of each task of the preview."""


def check(config: DictConfig) -> tuple[TrainingSettings, Trainable, Graph]:
    """Validate a composed configuration; returns its settings, app and compiled graph. Raises SettingsError."""
    settings = TrainingSettings.of(config)
    _check_engine(config)
    try:
        app = load_app(settings.app, **settings.options)
        graph, nodes = app.built(), named_nodes(app.nodes)
    except (AppError, PolicyNameError) as error:
        raise SettingsError(str(error)) from error
    if isinstance(nodes, Mapping):
        settings = settings.model_copy(update={"policies": nodes})
    start = _start(settings)
    add_teacher(config, settings, _micro_tokenizer(config, start) or start)
    if settings.teacher:
        try:
            load_model(settings.teacher)
        except ModelError as error:
            raise SettingsError(f"flow.algorithm.teacher={settings.teacher}: {error}", code=error.code) from error
    if settings.tracing:
        try:
            with tracing(settings.tracing):  # reports an error here instead of in every worker
                pass
        except TracingError as error:
            raise SettingsError(f"tracing={settings.tracing}: {error}") from error
    return settings, app, graph


def _check_engine(config: DictConfig) -> None:
    """Raise SettingsError if Ray, verl or the rollout engine cannot run the configuration."""
    engine.complete(config)
    engine.check_masks(config)
    engine.ray_options(config)
    if (size := config.actor_rollout_ref.actor.ppo_mini_batch_size) < 1:
        raise SettingsError(f"actor_rollout_ref.actor.ppo_mini_batch_size={size}; it must be at least 1")
    warnings.filterwarnings("ignore", module=r"verl\b")  # about engines that are neither installed nor used
    from hydra.errors import InstantiationException
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config

    if engine.on_cpu(config):
        answer_for_vllm()  # for an adapter, verl checks the version of vLLM
    if config.actor_rollout_ref.rollout.name == "vllm" and find_spec("vllm") is None:
        config = copy.deepcopy(config)  # verl would import vLLM to compare the rank with the largest that it serves
        with open_dict(config):
            config.actor_rollout_ref.model.lora_rank = 0
    try:
        with redirect_stdout(StringIO()):  # it prints a line on success
            validate_config(config, need_reference_policy(config), need_critic(config))
    except (AssertionError, ValueError, NotImplementedError, InstantiationException) as error:
        reason = str(error.__cause__ or error)  # hydra wraps what a configuration's class raises
        raise SettingsError(f"verl refuses these settings: {' '.join(reason.split())}") from error


def prepare(
    config: DictConfig,
    checked: tuple[TrainingSettings, Trainable, Graph],
    on_remark: Callable[[str], None],
    on_preview: Callable[[Preview, StepCost | None], None] = lambda preview, cost: None,
) -> TrainingSettings:
    """Rehearse and preview the app of a checked configuration, fix its paths, and write the run's folder.

    `checked` is the result of `check`. `on_remark` gets a line on what could not be rehearsed, or on what stands
    against learning; `on_preview` gets the rollouts that were played. Raises SettingsError.
    """
    settings, app, graph = checked
    out = Path(settings.out).absolute()
    start = _start(settings)
    with open_dict(config):
        config.out = str(out)
        config.start = str(start.absolute()) if start.exists() else settings.start
    _same_run(out, settings)
    _check_devices(config)
    if not (out / SETTINGS).exists():
        served = f"@http://{ROLLOUT_HOST}/" in json.dumps(settings.options)
        if settings.rehearsal and served:
            on_remark("no rehearsal: a frozen module is served by the training's own engine, which is not running yet")
        elif settings.rehearsal:
            _rehearse(app, graph, _format(config, settings), on_remark)
        if settings.preview and config.trainer.device == "cpu" and start.is_dir():
            on_preview(*_preview(config, settings, app, graph, on_remark))
    log = TrainingLog(out)
    try:
        (out / "tasks").mkdir(parents=True, exist_ok=True)
        for folder in (log.rollouts, log.replay_logs):
            folder.mkdir(exist_ok=True)
        for split, number in (("train", settings.train_tasks), ("test", settings.test_tasks)):
            _write_tasks(app, split, number, settings.questions, out / "tasks" / f"{split}.jsonl")  # type: ignore[arg-type]
        if (tokenizer := _micro_tokenizer(config, Path(config.start))) is not None:
            MicroTokenizer.load(tokenizer).save(out / TOKENIZER)
            with open_dict(config):
                config.actor_rollout_ref.model.tokenizer_path = str(out / TOKENIZER)
        OmegaConf.save([_agent_loop(settings, out)], out / "agent_loop.yaml")
        write_settings(out, settings)
    except AppError as error:
        raise SettingsError(str(error)) from error
    except OSError as error:
        raise SettingsError(f"cannot write to {out} ({error.strerror}); choose another out=") from error
    return settings


def _start(settings: TrainingSettings) -> Path:
    """Return the folder of the model to start from; for a name on a hub, a path that does not exist."""
    return SEED if settings.start == "seed" else Path(settings.start).expanduser()


def _micro_tokenizer(config: DictConfig, start: Path) -> Path | None:
    """Return the folder of the tokenizer of a start that is a micro model, whatever engine samples from it."""
    if (start / TOKENIZER).is_dir():  # an export
        return start / TOKENIZER
    micro = config.actor_rollout_ref.rollout.name == "micro" or start in SHIPPED.values()
    return start if micro else None


def _format(config: DictConfig, settings: TrainingSettings) -> ChatFormat | None:
    """Return the format of the model that is trained; None if its tokenizer is not on this machine."""
    try:
        tokenizer = load_tokenizer(_micro_tokenizer(config, Path(config.start)) or Path(config.start))
    except TemplateError:
        return None
    tokenizer.chat_template = config.actor_rollout_ref.model.custom_chat_template or tokenizer.chat_template
    return ChatFormat(tokenizer, settings.tool_parser)


def _rehearse(app: Trainable, graph: Graph, known: ChatFormat | None, on_remark: Callable[[str], None]) -> None:
    tasks = app.tasks("train", 1)
    if not tasks:
        raise SettingsError(f"the app {app.name} has no train tasks")
    try:
        remark = asyncio.run(rehearse(app, graph, tasks[0], known))
    except AppError as error:
        raise SettingsError(f"{error} (rehearsal=false starts without a rehearsal)") from error
    if remark:
        on_remark(remark)


def _preview(
    config: DictConfig, settings: TrainingSettings, app: Trainable, graph: Graph, on_remark: Callable[[str], None]
) -> tuple[Preview, StepCost | None]:
    """Play a few tasks with the model that is trained. Raises SettingsError if none of them can be trained on."""
    try:
        policy = LocalPolicy(
            config.start,
            temperature=settings.temperature,
            max_tokens=settings.response_tokens,
            parser=settings.tool_parser,
        )
    except AppError as error:
        raise SettingsError(str(error)) from error
    tasks, seconds = app.tasks("train", settings.preview), settings.rollout_seconds
    preview = asyncio.run(play(app, graph, tasks, policy, rollouts=PREVIEWED, seconds=seconds))
    found = "; ".join(obstacles(preview, all_patterns(app.nodes)))
    if RolloutStatus.OK not in preview.statuses:
        raise SettingsError(f"nothing can be learnt: {found} (preview=0 starts without a preview)")
    for remark in (found, *notes(preview)):
        if remark:
            on_remark(remark)
    return preview, cost_of(preview, config, policy)


def as_yaml(config: DictConfig) -> str:
    """Format a configuration for `agentflow train --show`."""
    return OmegaConf.to_yaml(config).rstrip()


def _same_run(out: Path, settings: TrainingSettings) -> None:
    """Raise SettingsError if the folder holds a run with other settings, which would mix checkpoints and metrics."""
    if not (out / SETTINGS).exists():
        return
    try:
        old = read_settings(out, TrainingSettings).model_dump(exclude=CHANGEABLE)
    except RunFolderError as error:
        raise SettingsError(str(error)) from error
    new = settings.model_dump(exclude=CHANGEABLE)
    if different := sorted(name for name in new if new[name] != old[name]):
        raise SettingsError(
            f"{out} holds a run with other settings ({', '.join(different)}); use the same, or choose another out="
        )


def _write_tasks(app: Trainable, split: Split, number: int, questions: int, path: Path) -> None:
    """Write the tasks for verl's dataset; `prompt` holds only the question, since the graph writes the prompts."""
    tasks = app.tasks(split, number)
    if not tasks:
        raise SettingsError(f"the app {app.name} has no {split} tasks")
    if split == "train" and len(tasks) < questions:
        raise SettingsError(f"the app {app.name} has {len(tasks)} train tasks; set questions={len(tasks)} or less")
    lines = [
        {
            "data_source": app.name,
            "prompt": [{"role": "user", "content": task.question}],
            "reward_model": {"style": "rule", "ground_truth": task.gold},
            "extra_info": {"index": position, "split": split, "task": task.model_dump_json()},
        }
        for position, task in enumerate(tasks)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def _agent_loop(settings: TrainingSettings, out: Path) -> dict[str, Any]:
    return {
        "name": "agentflow",
        "_target_": "agentflow.rl.trainer.agent_loop.FlowAgentLoop",
        "app": settings.app,
        "options": settings.options,
        "out": str(out),
        "seconds": settings.rollout_seconds,
        "tries": settings.rollout_tries,
        "keep_replay_logs": settings.replay_logs,
        "mask_cut_off": settings.flow.mask_cut_off,
        "pack_turns": settings.flow.pack_turns,
        "tool_parser": settings.tool_parser,
        "seed_requests": settings.seed_requests,
        "teacher": settings.teacher,
    }


def train(
    preset: str = "atlas-cpu",
    *overrides: str,
    on_start: Callable[[TrainingSettings], None] = lambda settings: None,
    on_line: Callable[[Line], None] = lambda line: None,
    on_remark: Callable[[str], None] = lambda remark: None,
    on_preview: Callable[[Preview, StepCost | None], None] = lambda preview, cost: None,
) -> Path:
    """Train the nodes of a LangGraph graph to the last step. A stopped run resumes.

    Args:
        preset: Name of a preset.
        overrides: Settings to change, as in "steps=10".
        on_start: Called with the settings before the workers start.
        on_line: Called with each new line of metrics.jsonl.
        on_remark: Called with a line on what the rehearsal could not try, or what stands against learning.
        on_preview: Called with the rollouts of the preview and the cost of a step before the workers start.

    Returns:
        The folder of the run.

    Raises:
        SettingsError: A setting is wrong, or the folder holds another run.
        TrainingFailed: The run failed.
    """
    config = compose_settings(preset, overrides)
    out = Path(config.out).absolute()
    try:
        with worker_base(config) as executable:
            checked = check(config)
            with run_lock(out):
                on_start(prepare(config, checked, on_remark, on_preview))
                launch(config, executable, on_line)
    except TrainingFailed as error:
        raise TrainingFailed(f"{error}; {_way_on(out, preset, overrides)}") from error
    return out


def _check_devices(config: DictConfig) -> None:
    """Raise SettingsError if this machine lacks the engine or GPUs of the preset; on a cluster, Ray checks the GPUs."""
    import torch

    engine.check_installed(config)
    wanted = config.trainer.n_gpus_per_node
    if config.ray_address is None and config.trainer.device == "cuda" and torch.cuda.device_count() < wanted:
        raise SettingsError(
            f"the preset needs {wanted} GPU(s) and torch finds {torch.cuda.device_count()} here; "
            "set trainer.n_gpus_per_node, ray_address, or choose another preset"
        )
    if config.ray_address is None:
        engine.check_attention(config)


def _way_on(out: Path, preset: str, overrides: Sequence[str]) -> str:
    """Return the command that resumes a run, and the step that it starts from."""
    command = shlex.join(["agentflow", "train", "--preset", preset, *overrides])
    step = latest_step(out)
    return f"continue from {f'step {step}' if step else 'the start'} with: {command}"


if __name__ == "__main__":
    sys.argv[1:1] = ["train"]
    runpy.run_module("agentflow", run_name="__main__")
