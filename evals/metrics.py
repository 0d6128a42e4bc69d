"""Metrics of an evaluation: accuracy with its interval, turns, tool calls, tokens. Pure functions of the records.

`number` is the number of samples of the dataset, whether or not they have a record. It is always the denominator.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agentflow.evals.intervals import accuracy_interval
from agentflow.evals.record import Record
from agentflow.evals.scorers.score import Decision
from agentflow.evals.statistics import pass_at
from agentflow.graph.run.trace import Tokens, cut_off
from agentflow.nodes.verifier import UNREADABLE as UNREADABLE_VERDICT
from agentflow.tools.result import ErrorClass

UNREADABLE = (ErrorClass.BAD_PLAN, ErrorClass.UNKNOWN_TOOL)
"""Error classes of a planner's output that names no tool that can be run."""


def interval(records: Sequence[Record], questions: int = 0, epochs: int = 1) -> tuple[float, float]:
    """Return the 95 % interval of the accuracy of `questions` tasks with `epochs` samples each.

    Both are at least those of the records. A sample without a record counts as wrong, as in the accuracy.
    """
    correct: dict[tuple[str, str], int] = defaultdict(int)
    tried: Counter[tuple[str, str]] = Counter()
    for record in records:
        tried[record.benchmark, record.task.id] += 1
        correct[record.benchmark, record.task.id] += record.correct
    tries = max(epochs, *tried.values(), 1)
    missing = [0.0] * (questions - len(tried))
    return accuracy_interval([*(number / tries for number in correct.values()), *missing], tries)


def passes(records: Sequence[Record], questions: int = 0, epochs: int = 1) -> dict[int, float]:
    """Return pass@k of `questions` tasks with `epochs` samples each, by k; empty if each has one sample.

    Both are at least those of the records. A sample without a record counts as wrong, as in the accuracy.
    """
    tries: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for record in records:
        tries[record.benchmark, record.task.id].append(record.correct)
    most = max(epochs, *map(len, tries.values()), 1)
    padded = [*tries.values(), *[[]] * (questions - len(tries))]
    return pass_at({str(task): [*tried, *[False] * (most - len(tried))] for task, tried in enumerate(padded)})


@dataclass(frozen=True)
class GroupSummary:
    """Counts of one family of tasks, or of all."""

    name: str
    number: int
    """Samples of the dataset: the denominator."""
    questions: int
    """Tasks with at least one record."""
    correct: int
    undecided: int
    """Samples that neither the rule nor a judge decided. They count as wrong."""
    turns: int

    @property
    def accuracy(self) -> float:
        """Return the share of correct samples, 0 to 1."""
        return self.correct / self.number if self.number else 0.0

    @property
    def most(self) -> float:
        """Return the accuracy if every undecided answer were correct: an upper bound of `accuracy`."""
        return (self.correct + self.undecided) / self.number if self.number else 0.0

    @property
    def mean_turns(self) -> float:
        """Return the turns per sample."""
        return self.turns / self.number if self.number else 0.0


@dataclass(frozen=True)
class Summary:
    """Metrics of an evaluation."""

    families: list[GroupSummary]
    """Sorted by name."""
    total: GroupSummary
    errors: Counter[str]
    """Failed turns by error class."""
    tools: Counter[str]
    """Turns with a readable plan, by its tool."""
    sources: Counter[str]
    """Results by the source that search tools report, which includes a language model behind it."""
    error_rate: float
    """Share of turns that failed, 0 to 1."""
    readable_rate: float
    """Share of turns whose plan is readable and names a tool, 0 to 1."""
    verdict_rate: float
    """Share of turns whose verdict is readable, 0 to 1; 1 without turns."""
    cut_off: Counter[str]
    """Replies that reached their limit of tokens, by module."""
    metrics: dict[str, float]
    """Means over all samples, by name. A sample without the metric, because it failed, counts as 0."""
    failures: Counter[str]
    """Failed runs and failed judges by reason. They count as wrong."""
    modules: dict[str, dict[str, Tokens]]
    """Tokens by module and model."""
    calls: int
    seconds: float
    """Mean wall-clock time of a sample that has a record."""
    pass_at: dict[int, float]
    """pass@k by k over the tasks with a record; empty if each has one sample. The accuracy is then avg@n."""
    ended: Counter[str]
    """Samples by the way their run ended (`Trace.status`). Only those that were "answered" ended as they should."""

    @property
    def tokens(self) -> Tokens:
        """Return the sum over all modules."""
        return sum((tokens for models in self.modules.values() for tokens in models.values()), Tokens())


def summarise(records: Sequence[Record], number: int) -> Summary:
    """Summarise `number` samples. One that failed or has no record counts as wrong."""
    turns = [turn for record in records for turn in record.turns]
    divisor = max(1, len(turns))
    readable = [turn for turn in turns if turn.result.error not in UNREADABLE]
    errors = Counter(turn.result.error.value for turn in turns if turn.result.error)
    unread = sum(turn.verdict.analysis.endswith(UNREADABLE_VERDICT) for turn in turns)
    reasons = [record.finish_reasons for record in records] + [turn.finish_reasons for turn in turns]
    families = sorted({record.task.family for record in records})
    by_family = [[record for record in records if record.task.family == family] for family in families]
    return Summary(
        families=[
            group_summary(family, members, len(members)) for family, members in zip(families, by_family, strict=True)
        ],
        total=group_summary("", records, number),
        errors=errors,
        tools=Counter(turn.tool for turn in readable if turn.tool),
        sources=Counter(turn.result.provider for turn in turns if turn.result.provider),
        error_rate=errors.total() / divisor,
        readable_rate=len(readable) / divisor,
        verdict_rate=1 - unread / divisor,
        cut_off=Counter(module for one in reasons for module in cut_off(one)),
        metrics=means(records, number),
        failures=Counter(_reason(record) for record in records if record.failed or record.judge_failed),
        modules=_modules(records),
        calls=sum(record.usage.calls for record in records),
        seconds=sum(record.seconds for record in records) / max(1, len(records)),
        pass_at=passes(records),
        ended=Counter(record.status for record in records),
    )


def _modules(records: Iterable[Record]) -> dict[str, dict[str, Tokens]]:
    found: dict[str, dict[str, Tokens]] = {}
    for record in records:
        for module, models in record.usage.modules.items():
            for model, tokens in models.items():
                own = found.setdefault(module, {})
                own[model] = own[model] + tokens if model in own else tokens
    return found


def group_summary(name: str, records: Iterable[Record], number: int) -> GroupSummary:
    """Return the counts of `records` among `number` samples."""
    ended = list(records)
    turns = sum(len(record.turns) for record in ended)
    return GroupSummary(
        name=name,
        number=number,
        questions=len({(record.benchmark, record.task.id) for record in ended}),
        correct=sum(record.correct for record in ended),
        undecided=sum(record.decision == Decision.UNDECIDED for record in ended),
        turns=turns,
    )


def means(records: Iterable[Record], number: int) -> dict[str, float]:
    """Return the mean of each metric over `number` samples; one without the metric counts as 0."""
    sums: dict[str, float] = defaultdict(float)
    for record in records:
        for name, value in record.metrics.items():
            sums[name] += value
    return {name: sums[name] / number for name in sorted(sums)}


def _reason(record: Record) -> str:
    return record.error if record.failed else record.decided_by
