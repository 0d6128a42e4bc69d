"""The figures of real models, from the traces of an evaluation."""

from pathlib import Path
from typing import Any

from benchmarks.real.figures import figures, measured
from benchmarks.real.tables import REASONING, VARIANTS, arguments, table


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
            trace(
                "correct",
                300,
                turn(None, verifier=1),
                turn(None, planner=1, verifier=1),
                turn("bad_arguments", planner=2, verifier=1),
            ),
            trace("undecided", 100, turn("bad_plan", planner=2, verifier=2), turn("tool_error", planner=1, verifier=1)),
        ]
    )
    assert found == {
        "questions": 2,
        "right": 1,
        "undecided": 1,
        "plans read at the first try": 2 / 4,
        "calls read": 3 / 4,
        "verdicts read at the first try": 4 / 5,
        "turns with a tool error": 2 / 4,
        "calls": 2,
        "tokens": 200,
        "tokens per right answer": 400,
    }


def test_a_cell_of_a_table_has_what_was_searched_and_scored() -> None:
    def searched(decision: str, shown: str) -> dict[str, Any]:
        one = {**turn(None, planner=1), "tool": "wikipedia_search"}
        one["result"]["output"] = shown
        del one["finish_reasons"]  # as the turns of `rag`
        rest = {"task": {"question": "Who?"}, "status": "answered", "seconds": 3.0, "metrics": {"em": 0.0, "f1": 0.5}}
        return {**trace(decision, 100, one), **rest}

    traces = [searched("correct", "Ada: a woman\nBo: a man"), searched("undecided", "Bob: a man")]
    found = measured(traces, {"Who?": ["Ada", "Bo"]})
    assert (found["right"], found["gold titles found"], found["f1"], found["seconds"]) == (1, 0.5, 0.5, 3.0)
    assert 0 < found["low"] < 0.5 < found["high"] < 1
    lines = table({"hotpotqa": {"rag": found, "direct": {**found, "right": 2}}}).splitlines()
    assert [line.split(" | ")[:2] for line in lines[2:]] == [["| hotpotqa", "direct"], ["| hotpotqa", "rag"]]
    assert ["**" in line for line in lines[2:]] == [True, False]


def test_the_model_alone_is_asked_in_three_ways(tmp_path: Path) -> None:
    asked = {
        variant: arguments("gsm8k", variant, 50, tmp_path, tmp_path)
        for variant in VARIANTS
        if variant.startswith("direct")
    }
    assert {words[words.index("--agent") + 1] for words in asked.values()} == {"direct"}
    assert f"prompts.generator={REASONING}" in asked["direct_reasoning"]
    assert "profile=paper" in asked["direct_instructions"]
    assert len({words[words.index("--out") + 1] for words in asked.values()}) == len(asked) == 3
