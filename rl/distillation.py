"""Teacher of on-policy distillation: where its weights are, and whether it reads the policy's tokens."""

from pathlib import Path
from typing import Any

from omegaconf import DictConfig, open_dict

from agentflow.rl.algorithms.opd import OPD
from agentflow.rl.micro.chat_model import SHIPPED
from agentflow.rl.settings import SettingsError, TrainingSettings
from agentflow.rl.template import TemplateError, load_tokenizer


def teacher_folder(spec: str) -> Path:
    """Return the folder of a teacher's weights: `embedded`, `embedded:NAME`, `embedded:FOLDER` or a folder."""
    provider, _, name = spec.partition(":")
    if provider != "embedded":
        return Path(spec).expanduser().absolute()
    return SHIPPED.get(name or "trained") or Path(name).expanduser().absolute()


def add_teacher(config: DictConfig, settings: TrainingSettings, student: Path) -> None:
    """Set `actor_rollout_ref.teacher`, the folder that the reference model is loaded from, where the algorithm is OPD.

    `student` is the folder of the policy's tokenizer. Raises SettingsError if the teacher has no weights there, or
    another tokenizer, or if the trainer would load no reference model of its own.
    """
    algorithm = settings.flow.algorithm
    if not isinstance(algorithm, OPD):
        return
    model = config.actor_rollout_ref.model
    if model.get("lora_rank") or model.get("lora_adapter_path"):
        raise SettingsError(
            "an adapter's reference is its base model, in the place of algorithm=opd's teacher; set lora_rank=0 of "
            "actor_rollout_ref.model",
            code="no_reference",
        )
    folder = teacher_folder(algorithm.teacher)
    if not (folder / "config.json").is_file():
        raise SettingsError(
            f"flow.algorithm.teacher={algorithm.teacher}: there is no model in {folder}; name a Hugging Face folder, "
            "or an embedded model",
            code="no_teacher",
        )
    try:
        same = _vocabulary(folder) == _vocabulary(student)
    except TemplateError as error:
        raise SettingsError(f"algorithm=opd compares tokenizers: {error}", code=error.code) from error
    if not same:
        raise SettingsError(
            f"flow.algorithm.teacher={algorithm.teacher} has another tokenizer than the policy; algorithm=sft can "
            "learn from it",
            code="other_tokenizer",
        )
    with open_dict(config):
        config.actor_rollout_ref.teacher = str(folder)


def _vocabulary(folder: Path) -> dict[str, int]:
    tokenizer: Any = load_tokenizer(folder)
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    return vocabulary
