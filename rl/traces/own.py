"""Run folders of evaluations: their records, with the calls beside them."""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from agentflow.evals.record import EvaluationSettings, Record
from agentflow.evals.results_store import TRACES
from agentflow.evals.run_folder import read_settings
from agentflow.evals.scorers.score import Decision
from agentflow.graph.run.recorder import RunCalls, calls_file, hash_of
from agentflow.rl.traces.episode import Conversation, Dropped, DropReason, Episode
from agentflow.tools.json_codec import model_from_json

Model = TypeVar("Model", bound=BaseModel)


class CallsOfTrace(RunCalls):
    """A line of the file of calls."""

    trace: str  # hash of its line


def read(folder: Path, dropped: Dropped) -> Iterator[Episode]:
    """Yield an episode for each record. Raises RunFolderError."""
    read_settings(folder, EvaluationSettings)
    traces = folder / TRACES
    calls = {one.trace: one for _, _, one in _models(calls_file(traces), CallsOfTrace, dropped)}
    for place, line, record in _models(traces, Record, dropped):
        task, inputs = record.task, record.task.data.get("inputs")
        decided = record.decision != Decision.UNDECIDED and not record.failed
        yield Episode(
            place,
            task.question,
            record.answer,
            task.id,
            run="/".join(map(str, record.key)),
            inputs=inputs if isinstance(inputs, dict) else None,
            gold=task.gold,
            reward=float(record.correct) if decided else None,
            family=task.family,
            data=task.data,
            calls=_conversations(calls[hash_of(line)]) if hash_of(line) in calls else [],
        )


def _models(path: Path, model: type[Model], dropped: Dropped) -> Iterator[tuple[str, bytes, Model]]:
    """Yield the lines of a file that may be missing, with their places; those of another form are dropped."""
    for number, line in enumerate(path.read_bytes().splitlines() if path.exists() else (), start=1):
        place = f"{path.name}, line {number}"
        try:
            yield place, line, model_from_json(model, line)
        except ValidationError:
            dropped[DropReason.OTHER_FORMAT].append(place)


def _conversations(made: RunCalls) -> list[Conversation]:
    """Return the model calls of the modules, those behind tools aside."""
    said = [{"role": message.role, "content": message.text} for message in made.messages]
    return [
        Conversation(span.module, [said[at] for at in (*span.prompt, span.replies[0])])
        for span in made.spans
        if span.kind == "model_call" and span.module != "tools" and span.replies
    ]
