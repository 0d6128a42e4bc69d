"""LangSmith exports: a file with a run a line, or a folder with runs.jsonl, feedback.jsonl and examples.jsonl.

Scores are the feedback on a trace's root run, in its own line or in feedback.jsonl. A correction in it is the answer as
a person edited it; a reference output is the answer that the data set has.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentflow.rl.traces.episode import Dropped, DropReason, Episode
from agentflow.rl.traces.lines import listed, objects
from agentflow.rl.traces.messages import UnreadableMessage, answered, asked
from agentflow.rl.traces.scores import reward_of

RUNS, FEEDBACK, EXAMPLES = "runs.jsonl", "feedback.jsonl", "examples.jsonl"
Line = dict[str, Any]


def read(path: Path, dropped: Dropped) -> Iterator[Episode]:
    """Yield the episodes of an export, in the order in which their traces begin in it. Raises TracesError."""
    runs = path / RUNS if path.is_dir() else path
    feedback = defaultdict[str, list[Line]](list)
    for line in _beside(runs, FEEDBACK, dropped):
        feedback[str(line.get("run_id"))].append(line)
    golds = {str(line.get("id")): line for up in (".", "..") for line in _beside(runs, f"{up}/{EXAMPLES}", dropped)}
    traces = defaultdict[str, list[tuple[str, Line]]](list)
    for place, line in objects(runs, dropped):
        for run in _nested(line):
            if "run_type" in run and isinstance(run.get("id"), str):
                traces[str(run.get("trace_id") or line.get("id"))].append((place, run))
            else:
                dropped[DropReason.OTHER_FORMAT].append(place)
    for trace in traces.values():
        yield from _episodes(trace, feedback, golds, dropped)


def _beside(runs: Path, name: str, dropped: Dropped) -> list[Line]:
    found = runs.parent / name
    return [line for _, line in objects(found, dropped)] if found.is_file() else []


def _nested(run: Line) -> Iterator[Line]:
    """Yield a run and those inside it, where the export nests them."""
    waiting = [run]
    while waiting:
        yield (run := waiting.pop(0))
        waiting = [*listed(run, "child_runs"), *waiting]


def _episodes(
    trace: Sequence[Any], feedback: Mapping[str, list[Line]], golds: Mapping[str, Line], dropped: Dropped
) -> Iterator[Episode]:
    by_id = {run["id"]: run for _, run in trace}
    places = {run["id"]: place for place, run in trace}
    for root in (run for run in by_id.values() if str(run.get("parent_run_id")) not in by_id):
        place, failed = places[root["id"]], bool(root.get("error"))
        found = [*listed(root, "feedback"), *feedback.get(root["id"], ())]
        given = root.get("reference_outputs") or golds.get(str(root.get("reference_example_id")), {})
        if isinstance(given, dict):
            given = given.get("reference_outputs") or given.get("outputs") or given
        try:
            question, inputs = asked(root.get("inputs"))
        except UnreadableMessage:
            dropped[DropReason.NOT_TEXT].append(place)
            continue
        yield Episode(
            place,
            question,
            answer="" if failed else answered(root.get("outputs")),
            id=str(root.get("reference_example_id") or ""),
            run=root["id"],
            inputs=inputs,
            gold=answered(given),
            edit=next((text for line in found if (text := answered(line.get("correction")))), ""),
            reward=None if failed else reward_of(_scores(root, found), place, dropped),
        )


def _scores(root: Line, feedback: Sequence[Line]) -> dict[str, Any]:
    """Return the scores of a run by key, the means of its feedback where that itself is not exported."""
    stats = root.get("feedback_stats")
    if not feedback and isinstance(stats, dict):
        return {str(key): one.get("avg") for key, one in stats.items() if isinstance(one, dict)}
    given = [(str(one.get("key") or ""), one.get("score"), one.get("value")) for one in feedback]
    return {key: value if score is None else score for key, score, value in given}
