"""Run folders of evaluations."""

from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from agentflow.evals.record import EvaluationSettings, Record
from agentflow.evals.results_store import TRACES
from agentflow.evals.run_folder import read_settings
from agentflow.evals.scorers.score import Decision
from agentflow.rl.traces.episode import Dropped, DropReason, Episode
from agentflow.tools.json_codec import model_from_json


def read(folder: Path, dropped: Dropped) -> Iterator[Episode]:
    """Yield an episode for each record. Raises RunFolderError."""
    read_settings(folder, EvaluationSettings)
    path = folder / TRACES
    for number, line in enumerate(path.read_bytes().splitlines() if path.exists() else (), start=1):
        place = f"{path.name}, line {number}"
        try:
            record = model_from_json(Record, line)
        except ValidationError:
            dropped[DropReason.OTHER_FORMAT].append(place)
            continue
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
        )
