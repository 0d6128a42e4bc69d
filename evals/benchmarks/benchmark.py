"""A benchmark: its questions, and what an answer to one of them is worth.

The rule of its scorer comes first. What the rule leaves undecided, a judge may decide, in the way that suits the
benchmark: it compares with the gold answer, or only reads which option was chosen, or is never asked. Evaluation counts
what stays undecided as wrong and says so; training leaves it out, since a reward of 0 would be a guess.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from agentflow.evals.benchmarks import store
from agentflow.evals.benchmarks.errors import BenchmarkError
from agentflow.evals.benchmarks.rows import read_rows
from agentflow.evals.benchmarks.store import Source
from agentflow.evals.benchmarks.subsets import chosen
from agentflow.evals.scorers.score import Decision, Score, decided
from agentflow.evals.task import Task

if TYPE_CHECKING:
    from huggingface_hub import HfApi

ALL, OFFICIAL = "all", "official"


class Judging(StrEnum):
    """What a judge is asked."""

    NEVER = "never"
    """The rule always decides."""
    DECIDES = "decides"
    """Whether an undecided answer means the same as the gold one."""
    EXTRACTS = "extracts"
    """Which option an undecided answer chooses."""
    SECOND_OPINION = "second opinion"
    """Whether an answer that the rule rejects means the same; the metric "judge" beside the rule, which stands."""


class AnswerJudge(Protocol):
    """What `evals.judge.Judge` does. Both raise ModelError when its model fails."""

    async def decide(self, question: str, gold: str, answer: str) -> Decision:
        """Whether `answer` means `gold`."""

    async def choose(self, question: str, options: Mapping[str, str], answer: str) -> str:
        """The letter of the option that `answer` chooses, "none", or "" if it cannot be told."""


@dataclass(frozen=True)
class Benchmark:
    """A data set with its scorer."""

    name: str
    title: str
    licence: str
    size: int
    """Questions of the subset "all"."""
    rule: Callable[[Task, str], Score]
    judging: Judging
    read: Callable[[Mapping[str, Any]], Task | None] | None = None
    """A row of a file as a task; None leaves the row out. Raises ValueError or KeyError for a row it cannot use."""
    source: Source | None = None
    """Where it is downloaded from."""
    generate: Callable[[str], Iterable[Task]] | None = None
    """The tasks of a subset, where they are made and not downloaded."""
    subsets: Sequence[str] = (ALL, OFFICIAL)
    """The first is the usual one."""
    pages: tuple[str, ...] = ()
    """Where its questions stand in the open besides `source`, as host/path."""
    corpus: str = "auto"
    """What `wikipedia_search` reads for it, unless the user says otherwise; as `Context.corpus`."""

    @property
    def gated(self) -> bool:
        """Whether its questions and answers must not be shown in plain text: on a screen, in a log, in a report."""
        return self.source is not None and self.source.gated

    @property
    def own_pages(self) -> tuple[str, ...]:
        """Every page of its own that is known, as host/path: an agent that reads one has the answers before it."""
        return (f"huggingface.co/datasets/{self.source.repository}", *self.pages) if self.source else self.pages

    def tasks(self, subset: str = "", file: Path | None = None) -> list[Task]:
        """The questions of a subset, of the usual one by default; of `file` instead of the data set, if one is given.

        A row that repeats the question and answer of another one is left out. Raises BenchmarkError.
        """
        subset = subset or (ALL if file else self.subsets[0])
        if subset not in (ALL, *self.subsets):
            raise BenchmarkError(f"{self.name} has no subset '{subset}'; it has {', '.join(self.subsets)}")
        if file is None and self.generate:
            return list(self.generate(subset))
        paths = [file] if file else store.files(self.name)
        unique: dict[str, Task] = {}
        for found in self.read_files(paths):
            unique.setdefault(found.id, found)
        return chosen(self.name, subset, list(unique.values()))

    def read_files(self, paths: Iterable[Path]) -> list[Task]:
        """Every row of `paths` that the benchmark takes. Raises BenchmarkError."""
        if self.read is None:
            raise BenchmarkError(f"{self.name} reads no files")
        tasks = []
        for path in paths:
            for number, row in enumerate(read_rows(path), start=1):
                try:
                    found = self.read({"file": path.stem, **row})
                except (ValueError, KeyError, TypeError, AttributeError) as error:
                    columns = ", ".join(map(str, row))
                    why = f"has no {error}; its columns are {columns}" if isinstance(error, KeyError) else str(error)
                    why = type(error).__name__ if self.gated and not isinstance(error, KeyError) else why
                    raise BenchmarkError(f"{path}, row {number}, is no question of {self.name}: {why}") from error
                tasks += [found] if found else []
        return tasks

    def state(self) -> str:
        """Whether the questions are there: generated, downloaded, or not. Raises BenchmarkError."""
        if not self.source:
            return "generated"
        return "downloaded" if store.lock_of(self.name) else "not downloaded"

    def get(self, hub: "HfApi | None" = None) -> str:
        """Downloads what is missing and checks what is there; returns a line on it. Raises BenchmarkError."""
        if not self.source:
            return f"{self.size:,} questions, generated"
        lock = store.get(self.name, self.source, lambda paths: len(self.read_files(paths)), hub)
        return f"{self.size:,} questions in {store.folder(self.name)}, revision {lock.revision}"

    def score(self, task: Task, answer: str) -> Score:
        """What the rule says. Never raises."""
        return self.rule(task, answer)

    async def decide(self, task: Task, answer: str, judge: AnswerJudge | None = None) -> Score:
        """What the rule says, and where it asks for one, the judge. Raises ModelError when the judge fails."""
        score = self.score(task, answer)
        match self.judging:
            case Judging.SECOND_OPINION if judge:
                accepts = score.correct or await judge.decide(task.question, task.gold, answer) == Decision.CORRECT
                return replace(score, metrics={**score.metrics, "judge": float(accepts)})
            case Judging.DECIDES if judge and score.decision == Decision.UNDECIDED:
                accepted = " or ".join([task.gold, *task.data.get("aliases", [])])
                verdict = await judge.decide(task.question, accepted, answer)
                return replace(score, decision=verdict, decided_by="judge")
            case Judging.EXTRACTS if judge and score.decision == Decision.UNDECIDED:
                letter = await judge.choose(task.stem, task.data["options"], answer)
                return decided(letter == task.data["letter"], "judge") if letter else score
        return score

    async def reward(self, task: Task, answer: str, judge: AnswerJudge | None = None) -> float | None:
        """1 for a correct answer, 0 for an incorrect one, None if it cannot be told. Raises ModelError."""
        score = await self.decide(task, answer, judge)
        return None if score.decision == Decision.UNDECIDED else float(score.correct)
