"""Settings of a training run: a preset, composed by hydra with verl's configuration and the user's overrides.

AgentFlow's settings have short names at the top level (`lr=1e-5`); verl's own keys can be set too. Both are validated
before anything is started.
"""

import difflib
import os
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from hydra.utils import get_class
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentflow.evals.run_folder import RunSettings
from agentflow.rl.algorithms import NAMES, AnyAlgorithm
from agentflow.rl.algorithms.sft import SFT
from agentflow.rl.presets.files import PRESETS, unknown_preset
from agentflow.tools.coded_error import CodedError
from agentflow.tools.expected import expected

OPEN = ("options.", "options=", "flow.algorithm.", "template_options.")
"""Beginnings of settings that may have any key."""


def verl_config() -> str:
    """Return the override that adds verl's configuration; its folder is found without the import of verl, for time."""
    verl = find_spec("verl")
    assert verl is not None
    return f"hydra.searchpath=['file://{Path(str(verl.origin)).parent / 'trainer' / 'config'}']"


class SettingsError(CodedError, ValueError):
    """A setting is invalid; `str()` is one line that names the remedy."""


class FlowSettings(BaseModel):
    """Settings of the group `flow`, documented in rl/presets/base.yaml."""

    model_config = ConfigDict(extra="forbid")

    algorithm: AnyAlgorithm
    updates: int | None = Field(ge=1)
    skip_settled_groups: bool
    mask_cut_off: bool
    count_as_zero: list[Literal["policy", "tool", "agent", "limit"]] = []
    pack_turns: bool
    poll_seconds: float = Field(gt=0)


class TrainingSettings(RunSettings):
    """Top-level settings of a training run, without verl's groups."""

    model_config = ConfigDict(extra="ignore")

    kind: Literal["training"] = "training"
    app: str = Field(pattern=r"^\S.*:[\w.]+$")
    options: dict[str, Any]
    start: str = Field(min_length=1)
    out: str = Field(min_length=1)
    preset: str
    seed: int = Field(ge=0)
    steps: int = Field(ge=1)
    questions: int = Field(ge=1)
    rollouts: int = Field(ge=1)
    train_tasks: int = Field(ge=1)
    test_tasks: int = Field(ge=1)
    validate_every: int
    validation_rollouts: int = Field(ge=1)
    validation_temperature: float = Field(ge=0)
    save_every: int = Field(ge=1)
    keep: int = Field(ge=1)
    lr: float = Field(gt=0)
    kl: float = Field(ge=0)
    clip_low: float = Field(gt=0, lt=1)
    clip_high: float = Field(gt=0)
    temperature: float = Field(gt=0)
    prompt_tokens: int = Field(ge=1)
    response_tokens: int = Field(ge=1)
    rollout_seconds: float = Field(gt=0)
    concurrency: int | None = Field(default=None, ge=1)
    rollout_tries: int = Field(ge=1)
    template_options: dict[str, Any] = Field(default_factory=dict)
    tool_parser: str = "auto"
    rehearsal: bool = True
    seed_requests: bool = False
    replay_logs: bool
    tracing: str = ""
    token_groups: int = Field(default=1, ge=0)
    alarm: Literal["warn", "stop"] = "warn"
    max_staleness: int = Field(default=0, ge=0)
    flow: FlowSettings
    sync_seconds: float = Field(default=600, gt=0)
    ray_address: str | Literal["auto"] | None
    ray_seconds: float = Field(default=60, gt=0)

    @property
    def teacher(self) -> str:
        """Return the model that plays the rollouts to imitate; "" if the policy plays."""
        return self.flow.algorithm.teacher if isinstance(self.flow.algorithm, SFT) else ""

    @classmethod
    def of(cls, config: DictConfig) -> "TrainingSettings":
        """Validate a composed configuration. Raises SettingsError."""
        try:
            own = OmegaConf.masked_copy(config, [name for name in cls.model_fields if name != "kind"])
            settings = cls.model_validate(OmegaConf.to_container(own, resolve=True, throw_on_missing=True))
        except OmegaConfBaseException as error:
            raise SettingsError(f"{_first_line(error)}; give it as key=value", code="missing_setting") from error
        except ValidationError as error:
            first = error.errors()[0]
            if first["type"] == "union_tag_invalid":
                known = f"there is no algorithm '{first['ctx']['tag']}'; there are {', '.join(NAMES)}"
                raise SettingsError(known, code="unknown_algorithm") from error
            name = ".".join(str(part) for part in first["loc"] if part not in NAMES)
            raise SettingsError(f"{name}={first['input']}: {expected(first)}", code="bad_value") from error
        if settings.train_tasks < settings.questions:
            raise SettingsError(
                f"train_tasks={settings.train_tasks} is less than questions={settings.questions}", code="too_few_tasks"
            )
        if settings.rollouts == 1 and not settings.flow.algorithm.supervised:
            raise SettingsError(
                f"rollouts=1, and {settings.flow.algorithm.name} compares the rollouts of a task; give at least 2",
                code="bad_value",
            )
        return settings


def compose_settings(preset: str, overrides: Sequence[str]) -> DictConfig:
    """Compose the configuration of a run from a preset and overrides. Raises SettingsError."""
    if problem := unknown_preset(preset):
        raise SettingsError(problem, code="unknown_preset")
    for override in overrides:
        if "=" not in override:
            raise SettingsError(
                f"'{override}' is neither a setting, as in steps=10, nor an agent, as in my_agent:agent or by a name "
                "in langgraph.json",
                code="bad_override",
            )
    overrides = [_as_hydra(override) for override in overrides]
    if any(override.lstrip("+").startswith("app=") for override in overrides):
        overrides = ["~options", "++options={}", *overrides]  # the preset's are those of another app
    os.environ.setdefault("VERL_LOGGING_LEVEL", "WARNING")  # verl reads it when it is imported
    with initialize_config_dir(str(PRESETS), version_base=None):
        try:
            config = compose(preset, [verl_config(), *overrides])
        except HydraException as error:
            raise SettingsError(_explain(error, overrides, compose(preset, [verl_config()])), code="refused") from error
    if config.by_device.cpu.dtype == "auto":
        config.by_device.cpu.dtype = "bfloat16" if _multiplies_bfloat16() else "float32"
    return config


def _multiplies_bfloat16() -> bool:
    """Return whether oneDNN has products in bfloat16 for this processor; others are many times slower."""
    import torch  # takes a second

    return bool(torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported())  # type: ignore[no-untyped-call]


def setting(key: str, value: str) -> str:
    """Write an override whose value is a text, whatever it holds."""
    quoted = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"{key}='{quoted}'"


def _as_hydra(override: str) -> str:
    """Convert an override to hydra's syntax.

    Options of the app, the algorithm and the chat template are force-added (`++`), since the preset does not list them.
    """
    if override.startswith("algorithm="):
        return f"flow.algorithm.name={override.removeprefix('algorithm=')}"
    return f"++{override}" if override.startswith(OPEN) else override


def _explain(error: HydraException, overrides: Sequence[str], config: DictConfig) -> str:
    """Explain why hydra refuses `overrides` of the preset's `config`."""
    known = set(_keys(config))
    for override in overrides:
        key = override.partition("=")[0].lstrip("+~")
        if not override.startswith("+") and key not in known:
            if _addable(config, key):
                return f"'{key}' is not in verl's configuration files, and is taken with a plus: +{override}"
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.0)
            return f"there is no setting '{key}'; the nearest is '{near[0]}'"
    return _first_line(error)


def _addable(config: DictConfig, key: str) -> bool:
    """Return whether verl takes a key that its files do not list: a field of the group's class, or of an open group."""
    group, _, name = key.rpartition(".")
    found = OmegaConf.select(config, group) if group else None
    if not isinstance(found, DictConfig):
        return False
    if built := found.get("_target_"):
        return name in getattr(get_class(built), "__dataclass_fields__", ())
    return not found or _addable(config, group)


def _keys(config: DictConfig, prefix: str = "") -> Iterator[str]:
    """Yield every key of a configuration, groups included, in dotted form."""
    for name in config:
        key = prefix + str(name)
        yield key
        value = config._get_node(name)
        if isinstance(value, DictConfig) and not value._is_none() and not value._is_interpolation():
            yield from _keys(value, f"{key}.")


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
