"""LangSmith exports: a file with a run a line, or a folder with runs.jsonl, feedback.jsonl and examples.jsonl.

Scores are the feedback on a trace's root run, in its own line or in feedback.jsonl. A correction in it is the answer as
a person edited it; a reference output is the answer that the data set has.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentflow.graph.tracing.observer import namespace_nodes
from agentflow.rl.traces.episode import Conversation, Episode
from agentflow.rl.traces.fields import answered, asked, reply
from agentflow.rl.traces.ledger import Ledger, Reason
from agentflow.rl.traces.lines import rows
from agentflow.rl.traces.messages import UnreadableMessage, chat_messages
from agentflow.rl.traces.scores import reward_of
from agentflow.rl.traces.spool import Spool

RUNS, FEEDBACK, EXAMPLES = "runs.jsonl", "feedback.jsonl", "examples.jsonl"
MODEL_CALLS = ("llm", "chat_model")

Line = dict[str, Any]


def read(path: Path, ledger: Ledger) -> Iterator[Episode]:
    """Yield the episodes of an export, in the order in which their traces begin in it. Raises TracesError."""
    runs = path / RUNS if path.is_dir() else path
    feedback = defaultdict[str, list[Line]](list)
    for _, line in _beside(runs, FEEDBACK, ledger):
        feedback[str(line.get("run_id"))].append(line)
    golds = {
        str(line.get("id")): line for folder in (".", "..") for _, line in _beside(runs, f"{folder}/{EXAMPLES}", ledger)
    }
    with Spool() as spool:
        for place, line in rows(runs, ledger):
            for run in _nested(line):
                if "run_type" not in run or not isinstance(run.get("id"), str):
                    ledger.drop(Reason.OTHER_FORMAT, place)
                    continue
                ledger.read["spans"] += 1
                spool.add(str(run.get("trace_id") or line["id"]).encode("utf-8", "replace").decode(), [place, run])
        for trace in spool.groups():
            yield from _episodes(trace, feedback, golds, ledger)


def _beside(runs: Path, name: str, ledger: Ledger) -> Iterator[tuple[str, Line]]:
    if (found := runs.parent / name).is_file():
        yield from rows(found, ledger)


def _nested(run: Any) -> Iterator[Line]:
    """Yield a run and those inside it, where the export nests them."""
    waiting = [run]
    while waiting:
        run = waiting.pop(0)
        if isinstance(run, dict):
            inner = run.get("child_runs")
            yield {name: value for name, value in run.items() if name != "child_runs"}
            waiting = [*(inner if isinstance(inner, list) else ()), *waiting]


def _episodes(
    trace: Sequence[Any], feedback: Mapping[str, list[Line]], golds: Mapping[str, Line], ledger: Ledger
) -> Iterator[Episode]:
    by_id = {run["id"]: run for _, run in trace}
    places = {run["id"]: place for place, run in trace}
    for root in (run for run in by_id.values() if run.get("parent_run_id") not in by_id):
        ledger.read["runs"] += 1
        place = places[root["id"]]
        inside = [run for run in by_id.values() if root in _around(run, by_id)]
        inside.sort(key=lambda run: (str(run.get("start_time") or ""), str(run.get("dotted_order") or "")))
        found = [*_list(root, "feedback"), *feedback[root["id"]]] if root["id"] in feedback else _list(root, "feedback")
        calls = [call for run in inside if (call := _call(run, by_id, places[run["id"]], ledger))]
        try:
            question, inputs = asked(root.get("inputs"))
        except UnreadableMessage:
            ledger.drop(Reason.NOT_TEXT, place)
            continue
        failed = bool(root.get("error"))
        yield Episode(
            place,
            question,
            answer="" if failed else _answer(root),
            id=str(root.get("reference_example_id") or ""),
            run=root["id"],
            inputs=inputs,
            gold=_gold(root, golds),
            edit=next((text for line in found if (text := _correction(line))), ""),
            reward=None if failed else reward_of(_scores(root, found), place, ledger),
            calls=calls,
        )


def _around(run: Line, by_id: Mapping[str, Line]) -> list[Line]:
    """Return a run and those around it, the innermost first."""
    found: list[Line] = []
    while run and run not in found:
        found.append(run)
        run = by_id.get(str(run.get("parent_run_id")), {})
    return found


def _call(run: Line, by_id: Mapping[str, Line], place: str, ledger: Ledger) -> Conversation | None:
    if run["run_type"] not in MODEL_CALLS or run.get("error"):
        return None
    inputs, extra = run.get("inputs"), run.get("extra")
    options = extra.get("invocation_params") if isinstance(extra, dict) else None
    tools = [tool for tool in _list(options, "tools") or _list(inputs, "tools") if isinstance(tool, dict)]
    try:
        prompt = chat_messages(inputs.get("messages")) if isinstance(inputs, dict) else []
        return Conversation(_path(run, by_id), [*prompt, reply(run.get("outputs"))], tools)
    except UnreadableMessage:
        ledger.drop(Reason.NOT_TEXT, place)
        return None


def _path(run: Line, by_id: Mapping[str, Line]) -> str:
    """Return the path of nodes in LangGraph's namespace; else the names of the runs of nodes around a call."""
    if namespace := _metadata(run, "langgraph_checkpoint_ns") or _metadata(run, "checkpoint_ns"):
        return "/".join(namespace_nodes(namespace))
    around = reversed(_around(run, by_id)[1:])
    nodes = [str(one.get("name")) for one in around if _metadata(one, "langgraph_node") == one.get("name")]
    return "/".join(nodes) or _metadata(run, "langgraph_node")


def _metadata(run: Line, name: str) -> str:
    extra = run.get("extra")
    metadata = extra.get("metadata") if isinstance(extra, dict) else None
    return str(metadata.get(name) or "") if isinstance(metadata, dict) else ""


def _scores(root: Line, feedback: Sequence[Line]) -> dict[str, Any]:
    """Return the scores of a run by key. Means of feedback count where the feedback itself is not exported."""
    stats = root.get("feedback_stats")
    means = {
        str(key): one.get("avg")
        for key, one in (stats.items() if isinstance(stats, dict) and not feedback else ())
        if isinstance(one, dict)
    }
    given = [(str(one.get("key") or ""), one.get("score"), one.get("value")) for one in feedback]
    return means | {key: value if score is None else score for key, score, value in given}


def _answer(root: Line) -> str:
    return answered(root.get("outputs"))


def _gold(root: Line, golds: Mapping[str, Line]) -> str:
    given = root.get("reference_outputs") or golds.get(str(root.get("reference_example_id")), {})
    outputs = given.get("reference_outputs") or given.get("outputs") or given if isinstance(given, dict) else given
    return answered(outputs)


def _correction(line: Line) -> str:
    return answered(line.get("correction"))


def _list(holder: Any, name: str) -> list[Any]:
    found = holder.get(name) if isinstance(holder, dict) else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
