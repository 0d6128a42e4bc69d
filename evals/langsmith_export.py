"""Export of evaluations to LangSmith: a dataset per benchmark and an experiment per run on it, as files or uploaded.

Writing files needs neither an account nor the network. The files contain what LangSmith's client sends: `dataset.json`
and `examples.jsonl` for each benchmark, and in a subfolder for each run `experiment.json`, `runs.jsonl` and
`feedback.jsonl`. A sample is a LangSmith run with one child run per turn, whose child is the tool call. Ids are derived
from the content, so that existing examples are not uploaded twice.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_URL, UUID, uuid5

from agentflow.evals.record import Record
from agentflow.evals.runs import Run
from agentflow.evals.scorers.score import Decision
from agentflow.graph.run.trace import TraceTurn
from agentflow.tools.coded_error import CodedError
from agentflow.tools.redaction import cut

if TYPE_CHECKING:
    from langsmith import Client

NAMESPACE = uuid5(NAMESPACE_URL, "https://smith.langchain.com/agentflow")

BATCH = 100
"""Lines per request."""

Line = dict[str, Any]


class UploadError(CodedError):
    """An upload to LangSmith failed; the message is one line."""


def write(out: Path, runs: Sequence[Run], benchmarks: Sequence[str], ended: datetime) -> list[Path]:
    """Write a folder for each of `benchmarks` into `out` and return the folders. Raises OSError.

    `ended` is the end time of the evaluation, which all LangSmith runs get.
    """
    written = []
    for benchmark in benchmarks:
        taking_part = [run for run in runs if any(record.benchmark == benchmark for record in run.records)]
        records = [record for run in taking_part for record in run.records if record.benchmark == benchmark]
        if not records:
            continue
        folder, dataset = out / _file_name(benchmark), f"agentflow-{benchmark}"
        folder.mkdir(parents=True, exist_ok=True)
        description = f"Questions of {benchmark} that AgentFlow was evaluated on"
        _write(folder / "dataset.json", [{"name": dataset, "description": description}])
        examples = {record.task.id: _example(dataset, record) for record in records}
        _write(folder / "examples.jsonl", examples.values())
        for run in taking_part:
            _experiment(folder / _file_name(run.name), dataset, run, benchmark, ended)
        written.append(folder)
    return written


def _experiment(folder: Path, dataset: str, run: Run, benchmark: str, ended: datetime) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    records = [record for record in run.records if record.benchmark == benchmark]
    name = f"{run.name}-{benchmark}"
    metadata = {"planner": run.planner, "max_turns": run.settings.context.max_turns, "judge": run.settings.judge}
    _write(
        folder / "experiment.json",
        [{"name": name, "description": f"{run.planner} on {benchmark}", "metadata": metadata}],
    )
    traces = [_Trace(dataset, name, record, ended) for record in records]
    _write(folder / "runs.jsonl", (line for trace in traces for line in trace.runs()))
    _write(folder / "feedback.jsonl", (line for trace in traces for line in trace.feedback()))


def _example(dataset: str, record: Record) -> Line:
    return {
        "id": str(_id(dataset, record.task.id)),
        "inputs": {"question": record.task.question},
        "reference_outputs": {"answer": record.task.gold},
        "metadata": {"benchmark": record.benchmark, "family": record.task.family, "question_id": record.task.id},
    }


@dataclass
class _Trace:
    """The LangSmith runs of one sample.

    A trace has the duration of a sample but no start time; every sample is exported as ending at `ended`.
    """

    dataset: str
    experiment: str
    record: Record
    ended: datetime

    @property
    def id(self) -> UUID:
        return _id(self.experiment, self.record.task.id, str(self.record.sample))

    def runs(self) -> Iterator[Line]:
        """Yield the run of the sample, then those of its turns, each with its tool call."""
        trace = self.record
        start = self.ended - timedelta(seconds=trace.seconds)
        root = self._run(self.id, "agentflow", "chain", start, self.ended, parent=None)
        root |= {
            "inputs": {"question": self.record.task.question},
            "outputs": {"answer": trace.answer, "status": trace.status},
            "error": trace.error or None,
            "reference_example_id": str(_id(self.dataset, self.record.task.id)),
        }
        yield root
        for turn in trace.turns:
            end = start + timedelta(seconds=turn.result.seconds)
            yield from self._turn(turn, root, start, end)
            start = end

    def _turn(self, turn: TraceTurn, root: Line, start: datetime, end: datetime) -> Iterator[Line]:
        inputs = {"sub_goal": turn.sub_goal, "context": turn.context, "plan": turn.plan}
        parent = self._run(_id(str(self.id), str(turn.turn)), f"turn {turn.turn}", "chain", start, end, root)
        yield parent | {"inputs": inputs, "outputs": turn.verdict.model_dump()}
        call = self._run(_id(str(self.id), str(turn.turn), "call"), turn.tool or "no tool", "tool", start, end, parent)
        error = f"{turn.result.error}: {turn.result.output}" if turn.result.error else None
        outputs = None if error else {"output": turn.result.output}
        yield call | {"inputs": turn.arguments, "outputs": outputs, "error": error}

    def _run(self, own: UUID, name: str, kind: str, start: datetime, end: datetime, parent: Line | None) -> Line:
        order = f"{start:%Y%m%dT%H%M%S%fZ}{own}"
        return {
            "id": str(own),
            "trace_id": str(self.id),
            "parent_run_id": parent and parent["id"],
            "dotted_order": f"{parent['dotted_order']}.{order}" if parent else order,
            "session_name": self.experiment,
            "name": name,
            "run_type": kind,
            "start_time": start.isoformat(),
            "end_time": end.isoformat(),
        }

    def feedback(self) -> Iterator[Line]:
        """Yield the scores as feedback. An undecided answer has no score, so that means do not count it as 0."""
        score = None if self.record.decision == Decision.UNDECIDED else float(self.record.correct)
        feedback = {"correct": (score, self.record.decided_by), **{k: (v, "") for k, v in self.record.metrics.items()}}
        for key, (value, comment) in feedback.items():
            own = str(_id(str(self.id), "feedback", key))
            yield {"id": own, "run_id": str(self.id), "key": key, "score": value, "comment": comment or None}


def _id(*content: str) -> UUID:
    return uuid5(NAMESPACE, "\n".join(content))


def _file_name(name: str) -> str:
    """Return `name`, which is untrusted, as a single safe component of a path."""
    return re.sub(r"[^\w.-]+", "-", name).lstrip(".") or "-"


def _write(path: Path, lines: Any) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def _lines(path: Path) -> list[Line]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def upload(folder: Path, client: "Client", on_sent: Callable[[str], None]) -> None:
    """Upload the dataset in `folder` and its experiments. Raises UploadError.

    `on_sent` is called with a line for each upload.
    """
    from langsmith.utils import LangSmithError
    from requests import RequestException

    try:
        dataset = _dataset(folder, client, on_sent)
        for experiment in sorted(path.parent for path in folder.glob("*/experiment.json")):
            _send_experiment(experiment, dataset, client, on_sent)
    except (LangSmithError, RequestException) as error:
        raise UploadError(f"LangSmith: {cut(' '.join(str(error).split()), 300)}") from error


def _dataset(folder: Path, client: "Client", on_sent: Callable[[str], None]) -> UUID:
    """Create the dataset if needed, upload missing examples and return its id."""
    [wanted] = _lines(folder / "dataset.json")
    name = wanted["name"]
    if client.has_dataset(dataset_name=name):
        dataset = client.read_dataset(dataset_name=name)
    else:
        dataset = client.create_dataset(name, description=wanted["description"])
    there = {str(example.id) for example in client.list_examples(dataset_id=dataset.id)}
    missing = [example for example in _lines(folder / "examples.jsonl") if example["id"] not in there]
    for some in _batches(missing):
        client.create_examples(dataset_id=dataset.id, examples=some)
    on_sent(f"dataset {name}: {len(missing):,} new examples, {len(there):,} there before")
    return UUID(str(dataset.id))


def _send_experiment(folder: Path, dataset: UUID, client: "Client", on_sent: Callable[[str], None]) -> None:
    [wanted] = _lines(folder / "experiment.json")
    project = client.create_project(
        wanted["name"],
        description=wanted["description"],
        metadata=wanted["metadata"],
        reference_dataset_id=dataset,
    )
    runs, feedback = _lines(folder / "runs.jsonl"), _lines(folder / "feedback.jsonl")
    for some in _batches(runs):
        # The client's own batching sends in the background and only logs rejected batches.
        client.request_with_retries("POST", "/runs/batch", request_kwargs={"json": {"post": some}})
    for line in feedback:
        client.create_feedback(feedback_id=line.pop("id"), session_id=project.id, **line)
    client.update_project(project.id, end_time=datetime.now(UTC))
    on_sent(f"experiment {wanted['name']}: {len(runs):,} runs, {len(feedback):,} scores")


def _batches(lines: Sequence[Line]) -> Iterator[Sequence[Line]]:
    return (lines[start : start + BATCH] for start in range(0, len(lines), BATCH))
