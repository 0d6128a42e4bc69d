"""Evaluations read from their run folders for reports, with the results per benchmark."""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from agentflow.evals.metrics import group_summary, interval, means, passes
from agentflow.evals.record import EvaluationSettings, Record
from agentflow.evals.results_store import read
from agentflow.evals.run_folder import RunFolderError
from agentflow.tools.result import ErrorClass

UNKNOWN_TOOL, NO_TOOL = "(no such tool)", "(unreadable plan)"
"""Substitutes for the tool's name, so that invented names do not become columns of a table."""

FAMILIES = 40
"""Most families of a benchmark that are listed."""


@dataclass(frozen=True)
class Run:
    """One evaluation: its settings and records."""

    name: str
    """Name of its folder, with as many parent folders as are needed to make it unique."""
    settings: EvaluationSettings
    records: list[Record]

    @cached_property
    def cells(self) -> list["Cell"]:
        """Return the results, one cell per benchmark."""
        by_benchmark: dict[str, list[Record]] = {name: [] for name in self.settings.benchmarks}
        for record in self.records:
            by_benchmark.setdefault(record.benchmark, []).append(record)
        return [self._cell(name, records) for name, records in by_benchmark.items()]

    @cached_property
    def families(self) -> list["FamilyScore"]:
        """Return the results by family of tasks, for benchmarks with at most `FAMILIES` families."""
        found: dict[str, dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
        for record in self.records:
            found[record.benchmark][record.task.family].append(record)
        return [
            self._family(benchmark, name, records)
            for benchmark, families in found.items()
            for name, records in sorted(families.items())
            if len(families) <= FAMILIES
        ]

    def tries(self, benchmark: str) -> dict[str, list[bool]]:
        """Return whether each sample of each task is correct, by id of the task."""
        found: dict[str, list[bool]] = defaultdict(list)
        for record in self.records:
            if record.benchmark == benchmark:
                found[record.task.id].append(record.correct)
        return found

    def tokens_per_right_answer(self, benchmark: str, tasks: Collection[str]) -> float:
        """Return the tokens of all models for each right answer to `tasks`, by id; infinite if there is none."""
        records = [one for one in self.records if one.benchmark == benchmark and one.task.id in tasks]
        right = sum(record.correct for record in records)
        return sum(record.usage.total_tokens for record in records) / right if right else math.inf

    def _cell(self, benchmark: str, records: Sequence[Record]) -> "Cell":
        epochs, asked = self.settings.epochs, self.settings.benchmarks.get(benchmark)
        questions = max(asked.questions if asked else 0, len({record.task.id for record in records}))
        number = max(questions * epochs, len(records))
        low, high = interval(records, questions, epochs)
        total = group_summary("", records, number)
        return Cell(
            run=self.name,
            planner=self.settings.planner,
            benchmark=benchmark,
            max_turns=self.settings.context.max_turns,
            questions=questions,
            epochs=epochs,
            ended=len(records),
            number=number,
            accuracy=total.accuracy,
            most=total.most,
            low=low,
            high=high,
            pass_at=passes(records, questions, epochs),
            metrics=means(records, number),
            turns=total.mean_turns,
            calls=total.turns,
            error_rate=sum(bool(turn.result.error) for one in records for turn in one.turns) / max(1, total.turns),
            undecided=total.undecided,
            failed=sum(record.failed for record in records),
            tools=_tools(records),
        )

    def _family(self, benchmark: str, name: str, records: Sequence[Record]) -> "FamilyScore":
        questions = len({record.task.id for record in records})
        number = max(questions * self.settings.epochs, len(records))
        low, high = interval(records, questions, self.settings.epochs)
        accuracy = sum(record.correct for record in records) / number
        return FamilyScore(self.name, benchmark, name, questions, accuracy, low, high)


@dataclass(frozen=True)
class FamilyScore:
    """Results of one run on one family of a benchmark's tasks; tasks without a record are left out."""

    run: str
    benchmark: str
    family: str
    questions: int
    accuracy: float
    low: float
    high: float
    """95 % interval of the accuracy."""


@dataclass(frozen=True)
class Tool:
    """Use of one tool."""

    calls: int
    questions: int
    """Samples in which it was chosen at least once."""
    errors: dict[str, int]
    """Failed calls by error class."""


@dataclass(frozen=True)
class Cell:
    """Results of one run on one benchmark. Shares are 0 to 1, over all samples of the dataset, finished or not."""

    run: str
    planner: str
    benchmark: str
    max_turns: int
    questions: int
    epochs: int
    ended: int
    """Samples that have a record."""
    number: int
    """Samples of the dataset: the denominator."""
    accuracy: float
    """Share of correct samples; with several epochs, avg@n."""
    most: float
    """Accuracy if every undecided answer were correct: an upper bound of `accuracy`."""
    low: float
    high: float
    """95 % interval of the accuracy."""
    pass_at: dict[int, float]
    """pass@k by k; empty with one epoch."""
    metrics: dict[str, float]
    """Further metrics of the benchmark's own script, by name."""
    turns: float
    """Turns per sample."""
    calls: int
    """Turns of all samples. Each is a tool call or a failed attempt at one."""
    error_rate: float
    """Share of calls that failed."""
    undecided: int
    failed: int
    tools: dict[str, Tool]
    """Use of each tool by name, most calls first."""


def tool_name(tool: str, error: ErrorClass | None) -> str:
    """Return the tool of a turn as named in tables."""
    if error == ErrorClass.UNKNOWN_TOOL:
        return UNKNOWN_TOOL
    return tool or NO_TOOL


def _tools(records: Iterable[Record]) -> dict[str, Tool]:
    calls, questions = Counter[str](), Counter[str]()
    errors: dict[str, Counter[str]] = defaultdict(Counter)
    for record in records:
        named = [(tool_name(turn.tool, turn.result.error), turn.result.error) for turn in record.turns]
        calls.update(name for name, _ in named)
        questions.update({name for name, _ in named})
        for name, error in named:
            if error:
                errors[name][error.value] += 1
    return {name: Tool(number, questions[name], dict(errors[name])) for name, number in calls.most_common()}


def read_runs(folders: Sequence[Path]) -> list[Run]:
    """Read the evaluations in `folders`. Raises RunFolderError, also if a folder is named twice."""
    resolved = [folder.resolve() for folder in folders]
    if repeated := [folder for folder, number in Counter(resolved).items() if number > 1]:
        raise RunFolderError(f"{repeated[0]} is named twice; name each folder once", code="named_twice")
    return [Run(name, *read(folder)) for name, folder in zip(_names(resolved), folders, strict=True)]


def _names(folders: Sequence[Path]) -> list[str]:
    """Return the shortest suffixes of the paths that are all different."""
    for length in range(1, max(len(folder.parts) for folder in folders) + 1):
        names = ["/".join(folder.parts[-length:]) for folder in folders]
        if len(set(names)) == len(names):
            return names
    return [str(folder) for folder in folders]
