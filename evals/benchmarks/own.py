"""The user's own benchmarks, named by a spec that can be written on a command line.

    quiz.jsonl            a file of tasks: JSON lines, JSON, CSV or parquet
    my_pkg.bench:QUIZ     rows, a `Benchmark`, or a function without arguments that returns one of them

A row has the columns that the readers of built-in benchmarks accept: `question` and `answer` (a text, a number or a
list of accepted ones), or `question`, `options` and `answer`. The type of the answer decides how it is compared; a
column `score_as` ("number" or "exact") names the rule. Python objects are the user's code and run in this process.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from agentflow.evals.benchmarks import readers
from agentflow.evals.benchmarks.benchmark import ALL, Benchmark, Judging
from agentflow.evals.benchmarks.errors import READING, BenchmarkError, refused
from agentflow.evals.benchmarks.rows import read_rows
from agentflow.evals.scorers.canonical import same
from agentflow.evals.scorers.final import final_answer, stated
from agentflow.evals.scorers.free_text import free_text
from agentflow.evals.scorers.number import as_number, number
from agentflow.evals.scorers.option import option
from agentflow.evals.scorers.score import Score, decided
from agentflow.graph.run.task import Task, identity
from agentflow.tools.named_object import NamedObjectError, is_object_name, made_by, named_object
from agentflow.tools.redaction import cut

Row = Mapping[str, Any]
Rule = Callable[[Task, str], Score]

SCORE_AS = "score_as"
_NAMED: Mapping[str, Callable[[str, str], Score]] = {
    "number": number,
    "exact": lambda answer, gold: decided(same(stated(final_answer(answer)), gold), "exact"),
}
"""Rules that the column `SCORE_AS` can name."""
FILES = (".jsonl", ".ndjson", ".json", ".csv", ".parquet")


def is_file(spec: str) -> bool:
    """Return whether `spec` has the form of a file of tasks."""
    return not is_object_name(spec) and Path(spec).suffix.lower() in FILES


def load(spec: str) -> Benchmark:
    """Load the benchmark that `spec` names. Raises BenchmarkError."""
    if not is_object_name(spec):
        return _benchmark(Path(spec).name, read_rows(Path(spec)))
    try:
        found = named_object(spec)
        if callable(found) and not isinstance(found, Benchmark):
            found = made_by(found, spec, "benchmark")
    except NamedObjectError as error:
        raise BenchmarkError(str(error), code=error.code) from error
    if isinstance(found, Benchmark):
        if found.gated:
            why = f"{spec} is gated, which reports know of our own benchmarks only; leave `gated` out"
            raise BenchmarkError(why, code="gated")
        return found
    if not isinstance(found, Sequence) or isinstance(found, str) or not all(isinstance(row, Mapping) for row in found):
        why = f"{spec} is a {type(found).__name__}, not rows (a list of dictionaries) or a Benchmark"
        raise BenchmarkError(why, code="wrong_type")
    return benchmark_of(spec.partition(":")[2], found)


def benchmark_of(
    name: str, rows: Sequence[Row], *, rule: Rule | None = None, judging: Judging | None = None
) -> Benchmark:
    """Create a benchmark from rows.

    Args:
        name: Name in tables and records.
        rows: The tasks. If any row has options, all are multiple choice.
        rule: Scores an answer; it must not raise. `Task.data` has all columns of the row. By default, it is the rule
            for short free-text answers, or for multiple choice.
        judging: The task of a judge. The default is `Judging.NEVER` with a `rule`; without, the judge decides undecided
            free-text answers or extracts the chosen option.

    Raises:
        BenchmarkError: There are no rows, or one cannot be read.
    """
    return _benchmark(name, [(f"row {number}", row) for number, row in enumerate(rows, start=1)], rule, judging)


def _benchmark(
    name: str, rows: Sequence[tuple[str, Row]], rule: Rule | None = None, judging: Judging | None = None
) -> Benchmark:
    """Create a benchmark from rows with their places. Raises BenchmarkError."""
    if not rows:
        raise BenchmarkError(f"{name} has no rows", code="no_rows")
    read, usual = reading(rows)
    judges = Judging.EXTRACTS if usual is by_letter else Judging.DECIDES
    tasks: dict[str, Task] = {}
    for place, row in rows:
        try:
            one = read(row)
        except READING as error:
            raise refused(f"{place} of {name} is no question", row, error) from error
        if one.id in tasks and str(tasks[one.id].data) != str(one.data):  # the rule reads all columns
            one = one.model_copy(update={"id": one.id + identity(str(one.data))})
        tasks.setdefault(one.id, one)
    return Benchmark(
        name=name,
        title=name,
        licence="your own",
        size=len(tasks),
        rule=rule or usual,
        judging=judging or (Judging.NEVER if rule else judges),
        read=read,
        generate=lambda subset: tasks.values(),
        subsets=(ALL,),
    )


def reading(rows: Sequence[tuple[str, Row]]) -> tuple[Callable[[Row], Task], Rule]:
    """Return the reader, which raises `READING`, and the rule of rows: multiple choice if one of them has options."""
    choice = any(not readers.empty(row.get(name)) for _, row in rows for name in ("options", "choices"))
    return partial(_read, choice=choice), by_letter if choice else by_text


def _read(row: Row, *, choice: bool) -> Task:
    found = (readers.choice if choice else readers.text)(row)
    task = Task.model_validate({**dict(found), "data": {**row, **found.data}})
    if not choice:
        task.data.pop("options", None)  # which are empty
    if (named := row.get(SCORE_AS)) and named not in _NAMED:
        raise ValueError(f"the column {SCORE_AS!r} holds {named!r}; it can hold {' or '.join(_NAMED)}")
    if named == "number" and as_number(task.gold) is None:
        raise ValueError(f"the answer {cut(task.gold, 40)!r} is no number")
    task.model_dump(mode="json")  # raises ValueError for a value that no record can hold
    return task


def by_text(one: Task, answer: str) -> Score:
    """Score a short text, or by the rule that the row names."""
    if rule := _NAMED.get(one.data.get(SCORE_AS) or ""):
        return rule(answer, one.gold)
    return free_text(answer, [one.gold, *one.data.get("aliases", [])], one.question)


def by_letter(one: Task, answer: str) -> Score:
    """Score the choice of an option."""
    return option(answer, one.data["options"], one.data["letter"])
