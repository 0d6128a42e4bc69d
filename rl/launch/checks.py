"""May this training run? All that is asked before its first worker starts, in the order in which it is asked.

`check` reads the configuration alone: settings, verl, the engine, the app, the teacher. `may_start` asks what costs
time or needs this machine: the run folder, devices, and a rehearsal. Every no is a SettingsError of one line.
"""

import asyncio
import copy
import importlib
import json
import math
import os
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib.util import find_spec
from io import StringIO
from pathlib import Path

from omegaconf import DictConfig, OmegaConf, open_dict

from agentflow.evals.run_folder import SETTINGS, RunFolderError, read_settings
from agentflow.graph.models.connections import ROLLOUT_HOST
from agentflow.graph.models.loading import load_model
from agentflow.graph.models.spec import ModelError
from agentflow.graph.tracing.setup import TracingError, tracing
from agentflow.rl.apps.loading import load_app
from agentflow.rl.apps.trainable import AppError, Made, Trainable
from agentflow.rl.launch import engine_config as engine
from agentflow.rl.launch.preview import rehearse
from agentflow.rl.micro.chat_model import SHIPPED
from agentflow.rl.policy.chat_format import ChatFormat
from agentflow.rl.rollout.template import TemplateError, folder_on_disk, load_tokenizer
from agentflow.rl.run.export import TOKENIZER
from agentflow.rl.settings import SettingsError, TrainingSettings
from agentflow.rl.trainer import vllm_cpu
from agentflow.version import pip_install

CHANGEABLE = {
    *("steps", "validate_every", "save_every", "keep", "test_tasks"),
    *("ray_address", "ray_seconds", "sync_seconds", "out", "tracing", "replay_logs", "seed_requests"),
    *("rollout_tries", "token_groups", "rehearsal", "alarm", "concurrency"),
}
"""Settings that may change when a run resumes."""

BESIDE = ("torchvision", "torchcodec")
"""Packages that come with vLLM, which imports them wherever they are installed."""

MASK = 8 << 30
"""Maximum size of one attention mask, in bytes."""

REQUIRED = (
    *(f"trainer.{name}" for name in ("logger", "device", "nnodes", "n_gpus_per_node")),
    "transfer_queue.backend.SimpleStorage.num_data_storage_units",
    *(f"actor_rollout_ref.model.{name}" for name in ("override_config", "use_remove_padding")),
    *(f"actor_rollout_ref.actor.{name}" for name in ("ppo_mini_batch_size", "ppo_max_token_len_per_gpu")),
    *(f"actor_rollout_ref.{group}.log_prob_max_token_len_per_gpu" for group in ("ref", "rollout")),
    *(f"actor_rollout_ref.rollout.{name}" for name in ("name", "n", "max_num_seqs", "tensor_model_parallel_size")),
    *(f"actor_rollout_ref.rollout.{name}" for name in ("prompt_length", "response_length", "agent.num_workers")),
)
"""Settings of verl that AgentFlow computes with, so that each needs a value."""


@dataclass(frozen=True)
class Checked:
    """A configuration that may be trained, as far as it says itself."""

    settings: TrainingSettings
    app: Trainable
    graph: Made
    start: Path
    """Folder of the model to start from; for a name on a hub, a path that does not exist."""
    micro_tokenizer: Path | None
    """Folder of the start's tokenizer if it is a micro model, whatever engine samples from it."""


def check(config: DictConfig) -> Checked:
    """Complete and validate a composed configuration. Raises SettingsError."""
    settings = TrainingSettings.of(config)
    if unset := [key for key in REQUIRED if OmegaConf.select(config, key) is None]:
        raise SettingsError(f"{unset[0]}=null: it needs a value; leave it out for the preset's", code="bad_value")
    engine.complete(config)
    check_engine(config)
    check_masks(config)
    if config.ray_address is None:
        check_room(engine.places(config), engine.ray_options(config)["num_cpus"])
    check_verl(config)
    check_trackers(config)
    try:
        app = load_app(settings.app, **settings.options)
        graph = app.built()
    except AppError as error:
        raise SettingsError(str(error)) from error
    start = SHIPPED.get(settings.start) or Path(settings.start).expanduser()
    tokenizer = _micro_tokenizer(config, start)
    here = config.ray_address is None and settings.start.startswith(("/", ".", "~"))
    if (tokenizer or here) and not start.is_dir():
        raise SettingsError(f"start={settings.start}: there is no such folder", code="no_start")
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
    return Checked(settings, app, graph, start, tokenizer)


def may_start(config: DictConfig, checked: Checked, on_remark: Callable[[str], None]) -> None:
    """Raise SettingsError if a checked configuration cannot be trained here.

    `on_remark` gets a line when the app is tried, and on what could not be rehearsed.
    """
    settings, out = checked.settings, Path(checked.settings.out).absolute()
    _same_run(out, settings)
    _check_devices(config)
    if (out / SETTINGS).exists():
        return
    served = f"@http://{ROLLOUT_HOST}/" in json.dumps(settings.options)
    if settings.rehearsal and served:
        on_remark("no rehearsal: a frozen module is served by the training's own engine, which is not running yet")
    elif settings.rehearsal:
        on_remark("the settings are right; rehearsing the app, before the workers start")
        _rehearse(config, checked, on_remark)


def check_engine(config: DictConfig) -> None:
    """Raise SettingsError for settings that the rollout engine cannot serve."""
    rollout = config.actor_rollout_ref.rollout
    if config.max_staleness and rollout.free_cache_engine:
        raise SettingsError(
            f"max_staleness={config.max_staleness} samples while the trainer computes, and the engine sleeps then; "
            "set actor_rollout_ref.rollout.free_cache_engine=false if both fit in memory, or max_staleness=0",
            code="engine_sleeps",
        )
    if engine.on_cpu(config) and config.seed_requests:
        raise SettingsError(
            "vLLM's CPU engine dies of a seeded request that is prefilled in chunks; set seed_requests=false",
            code="seeds_on_cpu",
        )


def check_verl(config: DictConfig) -> None:
    """Raise SettingsError if verl refuses the configuration."""
    if (size := config.actor_rollout_ref.actor.ppo_mini_batch_size) < 1:
        raise SettingsError(f"actor_rollout_ref.actor.ppo_mini_batch_size={size}; it must be at least 1")
    warnings.filterwarnings("ignore", module=r"verl\b")  # about engines that are neither installed nor used
    from hydra.errors import InstantiationException
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config

    if engine.on_cpu(config):
        vllm_cpu.answer_for_vllm()  # for an adapter, verl checks the version of vLLM
    if config.actor_rollout_ref.rollout.name == "vllm" and find_spec("vllm") is None:
        config = copy.deepcopy(config)  # verl would import vLLM to compare the rank with the largest that it serves
        with open_dict(config):
            config.actor_rollout_ref.model.lora_rank = 0
    # verl asks that rows can be divided by ranks, and into mini-batches; FlowTrainer pads them, whatever their number.
    config, mini = copy.deepcopy(config), config.actor_rollout_ref.actor.ppo_mini_batch_size
    config.data.train_batch_size = math.lcm(mini, config.trainer.nnodes * config.trainer.n_gpus_per_node)
    try:
        with redirect_stdout(StringIO()):  # it prints a line on success
            validate_config(config, need_reference_policy(config), need_critic(config))
    except (AssertionError, ValueError, NotImplementedError, InstantiationException) as error:
        reason = str(error.__cause__ or error)  # hydra wraps what a configuration's class raises
        raise SettingsError(f"verl refuses these settings: {' '.join(reason.split())}") from error


TRACKERS = ("wandb", "mlflow", "trackio", "swanlab", "clearml")
"""Values of `trainer.logger` that need a package of that name."""


def check_trackers(config: DictConfig) -> None:
    """Raise SettingsError if there is no such logger, or if its package, or what identifies its user, is missing."""
    from verl.utils.tracking import Tracking

    chosen = config.trainer.logger
    for name in [chosen] if isinstance(chosen, str) else chosen:
        if name not in Tracking.supported_backend:
            known = ", ".join(Tracking.supported_backend)
            raise SettingsError(
                f"trainer.logger={name}: there is none of that name; they are {known}", code="no_logger"
            )
        if name in TRACKERS and find_spec(name) is None:
            raise SettingsError(
                f"trainer.logger={name} needs a package; install it with: pip install {name}", code="not_installed"
            )
        if name == "wandb" and os.environ.get("WANDB_MODE") not in ("offline", "disabled") and not _known_to_wandb():
            raise SettingsError(
                "trainer.logger=wandb has no key; set WANDB_API_KEY, or WANDB_MODE=offline for files alone",
                code="no_key",
            )


def _known_to_wandb() -> bool:
    netrc = Path("~/.netrc").expanduser()
    return "WANDB_API_KEY" in os.environ or (netrc.is_file() and b"wandb" in netrc.read_bytes())


def check_masks(config: DictConfig) -> None:
    """Raise SettingsError if the attention mask of concatenated rows would exceed MASK bytes.

    For concatenated rows, transformers' `sdpa` and `eager` allocate a mask [tokens, tokens] of up to four bytes per
    entry. flash_attention_2 and flex_attention allocate none.
    """
    model, rollout = config.actor_rollout_ref.model, config.actor_rollout_ref.rollout
    attention = engine.attention_of(config)
    if not model.use_remove_padding or attention not in ("sdpa", "eager"):
        return
    actor, ref = config.actor_rollout_ref.actor, config.actor_rollout_ref.ref
    limits = {
        "actor.ppo_max_token_len_per_gpu": actor.use_dynamic_bsz and actor.ppo_max_token_len_per_gpu,
        "ref.log_prob_max_token_len_per_gpu": ref.log_prob_use_dynamic_bsz and ref.log_prob_max_token_len_per_gpu,
        "rollout.log_prob_max_token_len_per_gpu": rollout.log_prob_use_dynamic_bsz
        and rollout.log_prob_max_token_len_per_gpu,
    }
    for name, tokens in limits.items():
        if 4 * tokens**2 > MASK:
            raise SettingsError(
                f"actor_rollout_ref.{name}={tokens} with attn_implementation={attention} makes a mask of "
                f"{4 * tokens**2 >> 30} GiB; set at most {math.isqrt(MASK // 4)}, or "
                "attn_implementation=flash_attention_2",
                code="mask_too_large",
            )


def check_room(needed: int, free: float) -> None:
    """Raise SettingsError if Ray has fewer free CPUs than needed."""
    if free < needed:
        raise SettingsError(
            f"the run needs {needed} of Ray's CPUs, and {free:g} are free; wait, start Ray with more "
            "(ray start --num-cpus: places, not cores), or set fewer ranks or "
            "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
            code="too_few_cpus",
        )


def _check_devices(config: DictConfig) -> None:
    """Raise SettingsError if this machine lacks the engine or GPUs of the preset; on a cluster, Ray checks the GPUs."""
    import torch

    check_installed(config)
    wanted = config.trainer.n_gpus_per_node
    if config.ray_address is None and config.trainer.device == "cuda" and torch.cuda.device_count() < wanted:
        raise SettingsError(
            f"the preset needs {wanted} GPU(s) and torch finds {torch.cuda.device_count()} here; "
            "set trainer.n_gpus_per_node, ray_address, or choose another preset"
        )
    if config.ray_address is None:
        check_attention(config)


def check_installed(config: DictConfig) -> None:
    """Raise SettingsError if this machine lacks the engine, or packages beside vLLM that do not fit its torch."""
    name = config.actor_rollout_ref.rollout.name
    if engine.on_cpu(config):
        if not vllm_cpu.installed():
            raise _missing("vllm on a CPU", "vllm-cpu")
        for package in filter(find_spec, BESIDE):
            try:
                importlib.import_module(package)
            except (ImportError, OSError, RuntimeError) as error:
                reason = str(error).partition("\n")[0]
                raise SettingsError(
                    f"{package} does not fit this torch ({reason}), and vLLM imports it though no training of ours "
                    f"needs it: pip uninstall {' '.join(BESIDE)}",
                    code="does_not_fit",
                ) from error
    elif name != "micro" and find_spec(name) is None:
        raise _missing(name, "gpu")


def _missing(engine: str, extra: str) -> SettingsError:
    return SettingsError(f"the preset samples with {engine}; install it with: {pip_install(extra)}", code="no_engine")


def check_attention(config: DictConfig) -> None:
    """Raise SettingsError if the policy needs flash-attn and it is missing, as transformers would in each worker."""
    if engine.attention_of(config) == "flash_attention_2" and find_spec("flash_attn") is None:
        raise SettingsError(
            "attn_implementation=flash_attention_2 needs flash-attn, which has to be built for this torch and CUDA "
            "(pip install flash-attn --no-build-isolation); or set "
            "actor_rollout_ref.model.override_config.attn_implementation=sdpa and compute one row at a time",
            code="no_flash_attn",
        )


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


def _rehearse(config: DictConfig, checked: Checked, on_remark: Callable[[str], None]) -> None:
    app, known = checked.app, _format(config, checked)
    tasks = app.tasks("train", 1)
    if not tasks:
        raise SettingsError(f"the app {app.name} has no train tasks")
    try:
        remark = asyncio.run(rehearse(app, checked.graph, tasks[0], known))
    except AppError as error:
        raise SettingsError(f"{error} (rehearsal=false starts without a rehearsal)") from error
    if remark:
        on_remark(remark)


def _format(config: DictConfig, checked: Checked) -> ChatFormat | None:
    """Return the format of the model that is trained; None if its tokenizer is not on this machine."""
    try:
        tokenizer = load_tokenizer(checked.micro_tokenizer or folder_on_disk(checked.settings.start))
    except TemplateError:
        return None
    tokenizer.chat_template = config.actor_rollout_ref.model.custom_chat_template or tokenizer.chat_template
    return ChatFormat(tokenizer, checked.settings.tool_parser)


def _micro_tokenizer(config: DictConfig, start: Path) -> Path | None:
    """Return the folder of the tokenizer of a start that is a micro model, whatever engine samples from it."""
    if (start / TOKENIZER).is_dir():  # an export
        return start / TOKENIZER
    micro = config.actor_rollout_ref.rollout.name == "micro" or start in SHIPPED.values()
    return start if micro else None
