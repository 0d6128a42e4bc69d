"""A small run folder, as a training of one step leaves it."""

import json
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from agentflow.evals.passport.collect import installed, source_hash
from agentflow.graph.run.task import Task
from agentflow.graph.run.trace import Trace, append
from agentflow.rl.calls import Call
from agentflow.rl.chat import TokenReply
from agentflow.rl.kernels import Kernels
from agentflow.rl.replay_log import ReplayLogs, as_answer
from agentflow.rl.rollout import RolloutRecord, RolloutStatus, Trajectory
from agentflow.rl.run_lock import LOCK
from agentflow.rl.run_starts import FOLDERS, OWN, STARTS, TRAINING, Start
from agentflow.rl.settings import TrainingSettings, compose_settings
from agentflow.rl.training_log import TrainingLog

KERNELS = Kernels(processor="p", numpy=["AVX2"], openblas=[], torch="AVX2", device="cpu", threads=2, forced={})


def write_run(folder: Path) -> Path:
    """Write a run of one step with two rollouts and a checkpoint, and its start weights; returns its folder."""
    run, seed = folder / "run", folder / "seed"
    for path, value in ((seed, 0.0), (run / "checkpoints/global_step_1/actor/huggingface", 0.5)):
        path.mkdir(parents=True)
        save_file({"w": torch.full((2, 2), value), "b": torch.zeros(2)}, path / "model.safetensors")
    (run / "checkpoints/global_step_1/data.pt").write_bytes(b"state of the data loader")
    settings = TrainingSettings.of(compose_settings("atlas-cpu", [f"out={run}", f"start={seed}"]))
    (run / "settings.json").write_text(settings.model_dump_json())
    (run / "tasks").mkdir()
    for split in ("train", "test"):
        (run / f"tasks/{split}.jsonl").write_text(f'{{"split": "{split}"}}\n')
    (run / "tokenizer").mkdir()
    (run / "tokenizer/tokenizer.json").write_text("{}")
    (run / "agent_loop.yaml").write_text("[]")
    (run / LOCK).touch()
    write_start(run)
    log = TrainingLog(run)
    log.rewind(0)
    _record(log)
    log.step(1, {"batch": "ba7c", "reward": 0.5, "actor/kl": 0.25}, {"step": 1.0})
    return run


def write_start(run: Path, **changes: Any) -> None:
    start = Start(
        at="2026-01-01T00:00:00+00:00",
        step=0,
        code={OWN: source_hash(FOLDERS)},
        versions=installed(TRAINING),
        kernels=KERNELS,
        config={"lr": 0.1},
    )
    append(run / STARTS, start.model_copy(update=changes))


def _record(log: TrainingLog) -> None:
    logs, replies = ReplayLogs(log.replay_log_of(1, "train")), ([5, 6], [7])
    for number, reply in enumerate(replies):
        rollout = logs.of(f"train-0/{number}")
        answer = TokenReply("go", [1, 2, 3], reply, [-0.5] * len(reply), "stop", 0)
        rollout.add("policy", "plan", as_answer(answer))
        rollout.add("tool", "look", {"output": "found"})
        rollout.ended("ok", float(number))
        ids, chances = array("i", reply), array("f", [-0.5] * len(reply))
        call = Call(rollout.rollout, "planner", 0, array("i", [1, 2, 3]), ids, chances, "stop", 0)
        trace = Trace(task=Task(id="train-0", question="?", gold="!"), status="answered")
        made = Trajectory(rollout.rollout, RolloutStatus.OK, float(number), [call], [False], [0.0], trace)
        append(log.path_of(1, "train"), RolloutRecord.of(made, 1, "train").credited([number - 0.5]))


def edit_lines(path: Path, change: Callable[[dict[str, Any]], Any], *, line: int = 0) -> None:
    """Change one line of a file of JSON lines."""
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    change(lines[line])
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
