"""Run folders of AgentFlow: the records of an evaluation with the calls beside them, and the rollouts of a training.

The rollouts of a training have no prompts, so that they give tasks and preferences, and no conversations.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from agentflow.evals.record import EvaluationSettings, Record
from agentflow.evals.results_store import TRACES
from agentflow.evals.run_folder import RunSettings, read_settings
from agentflow.evals.scorers.score import Decision
from agentflow.graph.run.recorder import RunCalls, calls_file, hash_of
from agentflow.graph.run.trace import Trace
from agentflow.rl.rollout.rollout import RolloutStatus, RolloutTrace
from agentflow.rl.run.training_log import TrainingLog
from agentflow.rl.traces.episode import Conversation, Dropped, DropReason, Episode
from agentflow.tools.json_codec import model_from_json

Model = TypeVar("Model", bound=BaseModel)


class TrainingRun(RunSettings):
    """The part of a training's settings that says that it is one."""

    model_config = ConfigDict(extra="ignore")
    kind: Literal["training"] = "training"


class CallsOfTrace(RunCalls):
    """A line of the file of calls."""

    trace: str  # hash of its line


def read_evaluation(folder: Path, dropped: Dropped) -> Iterator[Episode]:
    """Yield an episode for each record. Raises RunFolderError."""
    read_settings(folder, EvaluationSettings)
    traces = folder / TRACES
    calls = {one.trace: one for _, _, one in _models(calls_file(traces), CallsOfTrace, dropped)}
    for place, line, record in _models(traces, Record, dropped):
        decided = record.decision != Decision.UNDECIDED and not record.failed
        found = _episode(place, "/".join(map(str, record.key)), record, float(record.correct) if decided else None)
        found.calls = _conversations(calls[hash_of(line)]) if hash_of(line) in calls else []
        yield found


def read_training(folder: Path, dropped: Dropped) -> Iterator[Episode]:
    """Yield an episode for each rollout of a training step. Raises RunFolderError."""
    read_settings(folder, TrainingRun)
    for path in sorted(TrainingLog(folder).rollouts.glob("*-train.jsonl")):
        for place, _, record in _models(path, RolloutTrace, dropped):
            reward = record.reward if record.outcome == RolloutStatus.OK else None
            yield _episode(place, f"{record.step}/{record.id}", record, reward)


def _models(path: Path, model: type[Model], dropped: Dropped) -> Iterator[tuple[str, bytes, Model]]:
    """Yield the lines of a file that may be missing, with their places; those of another form are dropped."""
    for number, line in enumerate(path.read_bytes().splitlines() if path.exists() else (), start=1):
        place = f"{path.name}, line {number}"
        try:
            yield place, line, model_from_json(model, line)
        except ValidationError:
            dropped[DropReason.OTHER_FORMAT].append(place)


def _episode(place: str, run: str, trace: Trace, reward: float | None) -> Episode:
    task, inputs = trace.task, trace.task.data.get("inputs")
    found = Episode(place, task.question, trace.answer, task.id, run, gold=task.gold, reward=reward)
    found.inputs, found.family, found.data = inputs if isinstance(inputs, dict) else None, task.family, task.data
    return found


def _conversations(made: RunCalls) -> list[Conversation]:
    """Return the model calls of the modules, those behind tools aside."""
    said = [{"role": message.role, "content": message.text} for message in made.messages]
    return [
        Conversation(span.module, [said[at] for at in (*span.prompt, span.replies[0])])
        for span in made.spans
        if span.kind == "model_call" and span.module != "tools" and span.replies
    ]
