"""Training of the nodes of a LangGraph graph: `agentflow train --preset NAME [key=value ...]`.

This process composes the settings, writes the files that workers read,
starts Ray and reports progress. The training itself runs in a Ray actor, on this machine or on a cluster.
"""

import json
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from omegaconf import DictConfig, OmegaConf, open_dict

from agentflow.evals.run_folder import write_settings
from agentflow.rl.apps.trainable import AppError, Split, Trainable
from agentflow.rl.launch.checks import Checked, check, may_start
from agentflow.rl.launch.engine_config import concurrency
from agentflow.rl.launch.workers import TrainingFailed, launch, worker_base
from agentflow.rl.micro.tokenizer import MicroTokenizer
from agentflow.rl.run.checkpoints import latest_step, run_lock
from agentflow.rl.run.export import TOKENIZER
from agentflow.rl.run.training_log import Line, TrainingLog
from agentflow.rl.settings import SettingsError, TrainingSettings, compose_settings


def write_run(config: DictConfig, checked: Checked) -> None:
    """Fix the paths of a checked configuration, and write the files of the run that its workers read.

    Raises SettingsError if the app has too few tasks, or the folder cannot be written.
    """
    settings, app, start = checked.settings, checked.app, checked.start
    out = Path(settings.out).absolute()
    with open_dict(config):
        config.out = str(out)
        config.start = str(start.absolute()) if start.exists() else settings.start
    log = TrainingLog(out)
    try:
        (out / "tasks").mkdir(parents=True, exist_ok=True)
        for folder in (log.rollouts, log.replay_logs):
            folder.mkdir(exist_ok=True)
        for split, number in (("train", settings.train_tasks), ("test", settings.test_tasks)):
            _write_tasks(app, split, number, settings.questions, out / "tasks" / f"{split}.jsonl")  # type: ignore[arg-type]
        if checked.micro_tokenizer is not None:
            MicroTokenizer.load(checked.micro_tokenizer).save(out / TOKENIZER)
            with open_dict(config):
                config.actor_rollout_ref.model.tokenizer_path = str(out / TOKENIZER)
        loop = {"name": "agentflow", "_target_": "agentflow.rl.trainer.agent_loop.FlowAgentLoop"}
        OmegaConf.save([loop | {"out": str(out), "concurrency": concurrency(config)}], out / "agent_loop.yaml")
        write_settings(out, settings)
    except AppError as error:
        raise SettingsError(str(error)) from error
    except OSError as error:
        raise SettingsError(f"cannot write to {out} ({error.strerror}); choose another out=") from error


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


def train(
    preset: str = "atlas-cpu",
    *overrides: str,
    on_start: Callable[[TrainingSettings], None] = lambda settings: None,
    on_line: Callable[[Line], None] = lambda line: None,
    on_rollouts: Callable[[int, Split, int], None] = lambda step, split, ended: None,
    on_remark: Callable[[str], None] = lambda remark: None,
) -> Path:
    """Train the nodes of a LangGraph graph to the last step. A stopped run resumes.

    Args:
        preset: Name of a preset.
        overrides: Settings to change, as in "steps=10".
        on_start: Called with the settings before the workers start.
        on_line: Called with each new line of metrics.jsonl.
        on_rollouts: Called with the step and the split that are under way, and how many of its rollouts have ended.
        on_remark: Called with a line when the app is tried, and on what could not be.

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
                may_start(config, checked, on_remark)
                write_run(config, checked)
                on_start(checked.settings)
                launch(config, executable, on_line, on_rollouts)
    except TrainingFailed as error:
        raise TrainingFailed(f"{error}; {_way_on(out, preset, overrides)}") from error
    return out


def _way_on(out: Path, preset: str, overrides: Sequence[str]) -> str:
    """Return the command that resumes a run, and the step that it starts from."""
    command = shlex.join(["agentflow", "train", "--preset", preset, *overrides])
    step = latest_step(out)
    return f"continue from {f'step {step}' if step else 'the start'} with: {command}"
