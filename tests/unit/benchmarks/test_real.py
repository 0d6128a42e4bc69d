"""The figures of real models, from the traces of an evaluation."""

from typing import Any

from benchmarks.real.__main__ import figures


def turn(error: str | None, **asked: int) -> dict[str, Any]:
    return {"result": {"error": error}, "finish_reasons": {module: ["stop"] * times for module, times in asked.items()}}


def trace(decision: str, tokens: int, *turns: dict[str, Any]) -> dict[str, Any]:
    return {
        "decision": decision,
        "turns": list(turns),
        "usage": {"modules": {"planner": {"m": {"calls": 2, "total_tokens": tokens}}}},
    }


def test_figures_are_shares_of_turns_and_means_of_questions() -> None:
    found = figures(
        [
            trace("correct", 300, turn(None, planner=1, verifier=1), turn("bad_arguments", planner=2, verifier=1)),
            trace("undecided", 100, turn("bad_plan", planner=2, verifier=2), turn("tool_error", planner=1, verifier=1)),
        ]
    )
    assert found == {
        "questions": 2,
        "right": 1,
        "undecided": 1,
        "plans read at the first try": 2 / 4,
        "calls read": 2 / 3,
        "verdicts read at the first try": 3 / 4,
        "turns with a tool error": 2 / 3,
        "calls": 2,
        "tokens": 200,
        "tokens per right answer": 400,
    }
