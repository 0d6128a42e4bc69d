"""Folders of trainings for tests, written by what a training writes them with."""

import json
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

from agentflow.graph.run.task import Task
from agentflow.graph.run.trace import Trace, TraceTurn, append
from agentflow.rl.algorithms.algorithm import RolloutFacts
from agentflow.rl.algorithms.flow_grpo import FlowGRPO
from agentflow.rl.apps.trainable import Split
from agentflow.rl.rollout.packing import PrefixMismatch, Reason
from agentflow.rl.rollout.rollout import CallTrace, RolloutStatus, RolloutTrace
from agentflow.rl.rollout.tokens import Sampled, TokenRow, TokenStep, unpacked
from agentflow.rl.run.training_log import TOKENS, TrainingLog

NUMBERS = count()


def rollout(
    step: int,
    split: Split,
    task: str,
    reward: float,
    *,
    status: RolloutStatus = RolloutStatus.OK,
    question: str = "",
    answer: str = "the answer",
    turns: Sequence[TraceTurn] = (),
    id: str = "",
    family: str = "sums",
) -> RolloutTrace:
    """A rollout of `task`."""
    error = {"error": "down"} if status == RolloutStatus.ENDPOINT_FAILED else {}
    trace = Trace(
        task=Task(id=task, question=question or f"What is {task}?", gold="2", family=family),
        analysis="the analysis",
        answer=answer,
        status="failed" if error else "answered",
        turns=list(turns),
        **error,
    )
    call = CallTrace(node="planner", prompt_tokens=30, sampled_tokens=10, finish_reason="stop", reward=0.0, fault=False)
    known = {"id": id or f"{task}/{next(NUMBERS)}", "step": step, "split": split, "outcome": status, "reward": reward}
    return RolloutTrace(**trace.own_fields, **known, calls=[call] * max(1, len(turns)))


def credited(rollouts: Sequence[RolloutTrace]) -> list[RolloutTrace]:
    """The rollouts with the advantages of Flow-GRPO."""
    trained = [one for one in rollouts if one.outcome == RolloutStatus.OK]
    known = [RolloutFacts(one.task.id, one.reward, [1] * len(one.calls), [False] * len(one.calls)) for one in trained]
    found = dict(zip(map(id, trained), FlowGRPO().advantages(known), strict=True))
    return [one.credited(found.get(id(one))) for one in rollouts]


def _write(out: Path, step: int, split: Split, rollouts: Sequence[RolloutTrace]) -> TrainingLog:
    log = TrainingLog(out)
    log.begin(step, split)
    for record in rollouts:
        append(log.rollouts / f"{step:06d}-{split}.jsonl", record)
    return log


def write_step(out: Path, step: int, rollouts: Sequence[RolloutTrace], **figures: float) -> None:
    """A training step and its line, with more figures."""
    reward = sum(record.reward for record in rollouts) / len(rollouts)
    metrics = {"reward": reward, "turns": 1.5, "tool_error_rate": 0.1, "sampled_tokens": 50, "actor/kl": 0.01 * step}
    seconds = {"step": 2.0, "gen": 1.0, "update_actor": 0.5}
    _write(out, step, "train", rollouts).step(step, metrics | figures, seconds)


def write_validation(out: Path, step: int, rollouts: Sequence[RolloutTrace]) -> None:
    """A validation and its line."""
    _write(out, step, "test", rollouts).validation(step)


def begin(out: Path, steps: int, **flow: Any) -> Path:
    """The folder of a training that is about to begin."""
    TrainingLog(out).rewind(0)
    settings = {"kind": "training", "preset": "atlas-cpu", "steps": steps, "questions": 2, "rollouts": 4, "lr": 1e-4}
    settings |= {"kl": 0.003, "options": {}, "flow": flow or {"algorithm": {"name": "flow-grpo"}}}
    (out / "settings.json").write_text(json.dumps(settings))
    return out


def token_step(step: int, task: str, rollouts: Sequence[RolloutTrace], *, hostile: str = "") -> TokenStep:
    """The tokens of a group: of each rollout a row of one call and, as its prefix breaks, a row of another."""
    pieces = {1: "<|im_start|>", 2: "user\n", 3: "Sub", 4: "-Goal", 5: hostile or ": sum", 6: "<|im_end|>"}
    prompt, rows = [1, 2] * 30, list[TokenRow]()
    for number, record in enumerate(rollouts):
        advantage = 0.866 if record.reward else -0.866
        known = {"task": task, "rollout": record.id, "status": record.outcome, "reward": record.reward}
        logprobs = {
            "rollout": [-0.5, -1.0, -1.5, -2.0],
            "trainer": [-0.5, -1.002, -1.45, -2.2],
            "updated": [-0.5, -0.9, -1.0, -3.0],
        }
        trained = {"node": "planner", "mask": [1] * 4, "advantage": advantage, "weight": 0.01, **logprobs}
        first, second = (Sampled(start=start, turn=turn, **trained) for turn, start in enumerate((60, 62)))
        mismatch = PrefixMismatch(Reason.REPLY, 62, 64, expected=5, found=4)
        rows.append(TokenRow(ids=[*prompt, 3, 4, 5, 6], calls=[first], **known))
        if number == 0:
            rows.append(TokenRow(ids=[*prompt, 3, 4, 3, 4, 5, 6], calls=[second], mismatch=mismatch, **known))
    return TokenStep(step=step, old="rollout", clip=(0.2, 0.3), tasks=[task], pieces=pieces, rows=rows)


def last_tokens(log: TrainingLog) -> TokenStep | None:
    """The tokens of the last step that recorded any."""
    latest = sorted((log.out / TOKENS).glob("*.jsonl.gz"), reverse=True)
    return next(filter(None, (unpacked(path.read_bytes()) for path in latest)), None)
