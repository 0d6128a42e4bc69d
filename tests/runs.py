"""Folders of evaluations for tests, written line by line as the runner writes them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from agentflow.evals.record import CRASH, Dataset, EvaluationSettings, Provenance, Record
from agentflow.evals.scorers.score import Decision, Score
from agentflow.graph.context import Context
from agentflow.graph.run.task import Task
from agentflow.graph.run.trace import Tokens, Trace, TraceTurn, Usage, append
from agentflow.graph.state import Verdict
from agentflow.tools.result import ErrorClass, ToolResult


def turn(number: int = 1, tool: str = "python_coder", error: ErrorClass | None = None, **texts: Any) -> TraceTurn:
    """A turn whose texts say what they are."""
    output = texts.pop("output", "the output")
    result = ToolResult.failed(error, output) if error else ToolResult(status="ok", output=output)
    given = {
        "sub_goal": "the sub-goal",
        "context": "the context",
        "arguments": {"code": "print(6 * 7)"},
        "verdict": Verdict(analysis="the verdict", signal="stop"),
    }
    return TraceTurn(turn=number, tool=tool, result=result, **{**given, **texts})


def record(
    number: int,
    *,
    correct: bool = True,
    sample: int = 0,
    benchmark: str = "bamboogle",
    family: str = "",
    decision: Decision | None = None,
    error: str = "",
    question: str = "",
    gold: str = "the gold",
    answer: str = "the answer",
    turns: Iterable[TraceTurn] = (),
) -> Record:
    """A try of question `number`."""
    question = question or f"Question {number}?"
    trace = Trace(
        task=Task(id=f"{number:016x}", question=question, gold=gold, family=family),
        analysis="the analysis",
        answer="" if error else answer,
        status="failed" if error else "answered",
        error=error,
        turns=list(turns),
        usage=Usage(calls=3, modules={"planner": {"m": Tokens(input_tokens=20, output_tokens=3, total_tokens=23)}}),
        seconds=1.25,
    )
    decision = decision or (Decision.CORRECT if correct and not error else Decision.INCORRECT)
    return Record.of(trace, benchmark, sample, Score(decision, CRASH if error else "exact match"))


def write_run(
    folder: Path,
    records: Iterable[Record],
    *,
    questions: int = 0,
    epochs: int = 1,
    planner: str = "",
    provenance: Iterable[Provenance] = (),
    **context: Any,
) -> Path:
    """Write the folder of an evaluation with `records` and `questions` questions, by default those of the records."""
    folder.mkdir(parents=True)
    ids: dict[str, set[str]] = {}
    for one in records:
        ids.setdefault(one.benchmark, set()).add(one.task.id)
        append(folder / "traces.jsonl", one)
    settings = EvaluationSettings(
        benchmarks={name: Dataset(questions=questions or len(found), digest="d") for name, found in ids.items()},
        epochs=epochs,
        provenance=list(provenance),
        context=Context(models={"planner": planner} if planner else {}, **context),
    )
    (folder / "settings.json").write_text(settings.model_dump_json())
    return folder
