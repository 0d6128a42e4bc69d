"""A benchmark: its tasks, and the scoring of an answer.

The benchmark's rule scores first. If it is undecided, a judge may decide; `Judging` defines whether it compares with
the gold answer, only extracts the chosen option or is never asked. Evaluation counts undecided answers as wrong and
reports them. Training leaves them out, because a reward of 0 would be a guess.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from agentflow.evals.benchmarks import store
from agentflow.evals.benchmarks.errors import READING, BenchmarkError, refused
from agentflow.evals.benchmarks.rows import read_rows
from agentflow.evals.benchmarks.store import DatasetSource
from agentflow.evals.benchmarks.subsets import chosen
from agentflow.evals.scorers.score import Decision, Score, decided
from agentflow.graph.run.task import Task

if TYPE_CHECKING:
    from huggingface_hub import HfApi

ALL, OFFICIAL = "all", "official"


class Judging(StrEnum):
    """The task of a judge in a benchmark."""

    NEVER = "never"
    """No judge: the rule always decides."""
    DECIDES = "decides"
    """Decide whether an undecided answer means the same as the gold answer."""
    EXTRACTS = "extracts"
    """Extract which option an undecided answer chooses."""
    SECOND_OPINION = "second opinion"
    """Decide whether an answer that the rule rejects means the same as the gold answer. The result is only the metric
    "judge"; the decision is the rule's."""


class AnswerJudge(Protocol):
    """Interface of `evals.judge.Judge`. Both methods raise ModelError if its model fails."""

    async def decide(self, question: str, gold: str, answer: str) -> Decision:
        """Decide whether `answer` means the same as `gold`."""

    async def choose(self, question: str, options: Mapping[str, str], answer: str) -> str:
        """Return the letter of the option that `answer` chooses, "none", or "" if it is unclear."""


@dataclass(frozen=True)
class Benchmark:
    """A data set with its scorer."""

    name: str
    title: str
    licence: str
    size: int
    """Number of tasks of the subset "all"."""
    rule: Callable[[Task, str], Score]
    judging: Judging
    read: Callable[[Mapping[str, Any]], Task | None] | None = None
    """Convert a row of a file to a task; None skips the row. Raises ValueError or KeyError for an invalid row."""
    source: DatasetSource | None = None
    """The download, if the tasks are not generated."""
    generate: Callable[[str], Iterable[Task]] | None = None
    """Generate the tasks of a subset, if they are not downloaded."""
    subsets: Sequence[str] = (ALL, OFFICIAL)
    """Names of the subsets; the first is the default."""
    pages: tuple[str, ...] = ()
    """Public pages besides `source` that contain its questions, as host/path."""
    corpus: str = "auto"
    """Default corpus of `wikipedia_search` for this benchmark; see `Context.corpus`."""

    @property
    def gated(self) -> bool:
        """Return whether its terms forbid plain text of questions and answers on screens, in logs and in reports."""
        return self.source is not None and self.source.gated

    @property
    def own_pages(self) -> tuple[str, ...]:
        """Return all known pages of the benchmark, as host/path. An agent that reads one can see the answers."""
        return (f"huggingface.co/datasets/{self.source.repository}", *self.pages) if self.source else self.pages

    def tasks(self, subset: str = "", file: Path | None = None) -> list[Task]:
        """Return the tasks of a subset, by default the first of `subsets`; from `file`, if given, not the data set.

        Rows with the same question and answer as an earlier row are left out. Raises BenchmarkError.
        """
        subset = subset or (ALL if file else self.subsets[0])
        if subset not in (ALL, *self.subsets):
            why = f"{self.name} has no subset '{subset}'; it has {', '.join(self.subsets)}"
            raise BenchmarkError(why, code="unknown_subset")
        if file is None and self.generate:
            return list(self.generate(subset))
        paths = [file] if file else store.files(self.name)
        unique: dict[str, Task] = {}
        for found in self.read_files(paths):
            unique.setdefault(found.id, found)
        return chosen(self.name, subset, list(unique.values()))

    def read_files(self, paths: Iterable[Path]) -> list[Task]:
        """Return a task for every row of `paths` that `read` does not skip. Raises BenchmarkError."""
        if self.read is None:
            raise BenchmarkError(f"{self.name} reads no files", code="no_files")
        tasks = []
        for path in paths:
            for place, row in read_rows(path):
                try:
                    found = self.read({"file": path.stem, **row})
                except READING as error:
                    refusal = f"{place} of {path} is no question of {self.name}"
                    raise refused(refusal, row, error, hidden=self.gated) from error
                tasks += [found] if found else []
        return tasks

    def state(self) -> str:
        """Return "generated", "downloaded" or "not downloaded". Raises BenchmarkError."""
        if not self.source:
            return "generated"
        return "downloaded" if store.lock_of(self.name) else "not downloaded"

    def get(self, hub: "HfApi | None" = None) -> str:
        """Download missing files, verify existing ones and return a line on the result. Raises BenchmarkError."""
        if not self.source:
            return f"{self.size:,} questions, generated"
        lock = store.get(self.name, self.source, lambda paths: len(self.read_files(paths)), hub)
        return f"{self.size:,} questions in {store.folder(self.name)}, revision {lock.revision}"

    def score(self, task: Task, answer: str) -> Score:
        """Score by the rule. Never raises."""
        return self.rule(task, answer)

    async def decide(self, task: Task, answer: str, judge: AnswerJudge | None = None) -> Score:
        """Score by the rule and, as defined by `judging`, by the judge. Raises ModelError if the judge fails."""
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
        """Return 1 for a correct answer, 0 for an incorrect one, None for an undecided one. Raises ModelError."""
        score = await self.decide(task, answer, judge)
        return None if score.decision == Decision.UNDECIDED else float(score.correct)
