"""The figures of an evaluation with a real model, from its traces."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentflow.evals.intervals import accuracy_interval


def figures(traces: Iterable[dict[str, Any]]) -> dict[str, float]:
    """Return the figures of an evaluation; shares are of turns, and calls and tokens of a question."""
    traces = list(traces)
    turns = [turn for trace in traces for turn in trace["turns"]]
    usage = [one for trace in traces for module in trace["usage"]["modules"].values() for one in module.values()]
    right = sum(trace["decision"] == "correct" for trace in traces)
    tokens = sum(one["total_tokens"] for one in usage)
    called = [turn for turn in turns if _could_be_read(turn)]
    # A run over passages begins without a plan of the model, and no verdict is asked where nothing was found.
    planned = [turn for turn in turns if "planner" in turn.get("finish_reasons", {})]
    judged = [turn for turn in turns if "verifier" in turn.get("finish_reasons", {})]

    def share(which: list[dict[str, Any]], of: list[dict[str, Any]]) -> float:
        return len(which) / max(1, len(of))

    return {
        "questions": len(traces),
        "right": right,
        "undecided": sum(trace["decision"] == "undecided" for trace in traces),
        "plans read at the first try": share(
            [turn for turn in _once(planned, "planner") if _could_be_read(turn)], planned
        ),
        "calls read": share([turn for turn in called if turn["result"]["error"] != "bad_arguments"], called),
        "verdicts read at the first try": share(_once(judged, "verifier"), judged),
        "turns with a tool error": share([turn for turn in called if turn["result"]["error"]], called),
        "calls": sum(one["calls"] for one in usage) / len(traces),
        "tokens": tokens / len(traces),
        "tokens per right answer": tokens / max(1, right),
    }


def _could_be_read(turn: dict[str, Any]) -> bool:
    """Return whether the turn's plan names a step with a tool."""
    return turn["result"]["error"] not in ("bad_plan", "unknown_tool")


def _once(turns: list[dict[str, Any]], module: str) -> list[dict[str, Any]]:
    """Return the turns whose module was asked once, so that its free reply could be read."""
    return [turn for turn in turns if len(turn.get("finish_reasons", {}).get(module, [])) == 1]


def measured(traces: Iterable[dict[str, Any]], titles: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Return the figures of one cell of a table; `titles` are those of a question's gold passages."""
    traces = list(traces)
    low, high = accuracy_interval([float(trace["decision"] == "correct") for trace in traces])
    found = {
        **figures(traces),
        "low": low,
        "high": high,
        "seconds": sum(trace["seconds"] for trace in traces) / len(traces),
        "ended without an answer": sum(trace["status"] != "answered" for trace in traces) / len(traces),
    }
    for metric in ("em", "f1"):
        if values := [trace["metrics"][metric] for trace in traces if metric in trace["metrics"]]:
            found[metric] = sum(values) / len(traces)
    searched = [(trace, titles[question]) for trace in traces if (question := trace["task"]["question"]) in titles]
    if searched and any(trace["turns"] for trace in traces):
        found["gold titles found"] = sum(_recall(*one) for one in searched) / len(searched)
    return found


def _recall(trace: dict[str, Any], titles: Sequence[str]) -> float:
    """Return the share of the gold passages that some search showed."""
    shown = "\n".join(turn["result"]["output"] for turn in trace["turns"] if turn["tool"] == "wikipedia_search")
    return sum(f"{title}: " in shown for title in titles) / len(titles)
