"""What an evaluation comes to: accuracy with its interval, turns, tool calls, tokens. Pure functions of its records.

`number` is always the denominator: tries of the dataset, whether or not they have a record.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agentflow.evals.intervals import accuracy_interval
from agentflow.evals.record import Record
from agentflow.evals.scorers.score import Decision
from agentflow.evals.trace import Tokens
from agentflow.evals.votes import majority
from agentflow.tools.result import ErrorClass

UNREADABLE = (ErrorClass.BAD_PLAN, ErrorClass.UNKNOWN_TOOL)
"""Error classes of a planner's output that names no tool that can be run."""


def interval(records: Sequence[Record], questions: int = 0, epochs: int = 1) -> tuple[float, float]:
    """95 % interval of the accuracy of `questions` that are tried `epochs` times; at least those that have a record.

    A try without a record is a wrong one of its question, as it is in the accuracy, and no further question.
    """
    correct: dict[tuple[str, str], int] = defaultdict(int)
    tried: Counter[tuple[str, str]] = Counter()
    for record in records:
        tried[record.benchmark, record.task.id] += 1
        correct[record.benchmark, record.task.id] += record.correct
    tries = max(epochs, *tried.values(), 1)
    missing = [0.0] * (questions - len(tried))
    return accuracy_interval([*(number / tries for number in correct.values()), *missing], tries)


@dataclass(frozen=True)
class Group:
    """Tries of one family, or all of them."""

    name: str
    number: int
    """Tries of the dataset, whether or not they ended."""
    questions: int
    """Those of which a try has ended."""
    correct: int
    undecided: int
    """Tries on whose answer neither rule nor judge decided. They count as wrong."""
    turns: int

    @property
    def accuracy(self) -> float:
        """Correct tries over tries of the dataset."""
        return self.correct / self.number if self.number else 0.0

    @property
    def most(self) -> float:
        """The accuracy if every undecided answer were correct; it is at least `accuracy`."""
        return (self.correct + self.undecided) / self.number if self.number else 0.0

    @property
    def mean_turns(self) -> float:
        """Turns per try of the dataset."""
        return self.turns / self.number if self.number else 0.0


@dataclass(frozen=True)
class Summary:
    """The figures of an evaluation."""

    families: list[Group]
    """In the order of their names."""
    total: Group
    errors: Counter[str]
    """Failed turns by error class."""
    tools: Counter[str]
    """Turns by the tool that was chosen, where the plan could be read."""
    sources: Counter[str]
    """Results by what the search tools say they come from, a language model behind it included."""
    readable: int
    """Turns whose plan could be read and named a tool."""
    metrics: dict[str, float]
    """Means by name, over all tries: one that has none, since it broke off, counts 0."""
    failures: Counter[str]
    """Runs that broke off and judges that failed, by reason. They count as wrong."""
    modules: dict[str, dict[str, Tokens]]
    """Tokens of each module, by its models."""
    calls: int
    seconds: float
    """Mean wall-clock time of a try."""
    majority: float | None = None
    """Accuracy of each question's most frequent answer; None where each was tried once."""

    @property
    def tokens(self) -> Tokens:
        """Of all modules."""
        return sum((tokens for models in self.modules.values() for tokens in models.values()), Tokens())

    @property
    def error_rate(self) -> float:
        """Failed turns over turns."""
        return self.errors.total() / self.total.turns if self.total.turns else 0.0

    @property
    def readable_rate(self) -> float:
        """Planner outputs that could be read and named a tool, over all."""
        return self.readable / self.total.turns if self.total.turns else 0.0


def summarise(records: Sequence[Record], number: int) -> Summary:
    """The summary of `number` tries. One without a record is wrong, and so is one that broke off."""
    turns = [turn for record in records for turn in record.turns]
    readable = [turn for turn in turns if turn.result.error not in UNREADABLE]
    families = sorted({record.task.family for record in records})
    by_family = [[record for record in records if record.task.family == family] for family in families]
    return Summary(
        families=[_group(family, of, len(of)) for family, of in zip(families, by_family, strict=True)],
        total=_group("", records, number),
        errors=Counter(turn.result.error.value for turn in turns if turn.result.error),
        tools=Counter(turn.tool for turn in readable if turn.tool),
        sources=Counter(turn.result.provider for turn in turns if turn.result.provider),
        readable=len(readable),
        metrics=means(records, number),
        failures=Counter(_reason(record) for record in records if record.failed or record.judge_failed),
        modules=_modules(records),
        calls=sum(record.usage.calls for record in records),
        seconds=sum(record.seconds for record in records) / max(1, len(records)),
        majority=majority(records),
    )


def _modules(records: Iterable[Record]) -> dict[str, dict[str, Tokens]]:
    found: dict[str, dict[str, Tokens]] = {}
    for record in records:
        for module, models in record.usage.modules.items():
            for model, tokens in models.items():
                own = found.setdefault(module, {})
                own[model] = own[model] + tokens if model in own else tokens
    return found


def _group(name: str, records: Iterable[Record], number: int) -> Group:
    ended = list(records)
    turns = sum(len(record.turns) for record in ended)
    return Group(
        name=name,
        number=number,
        questions=len({(record.benchmark, record.task.id) for record in ended}),
        correct=sum(record.correct for record in ended),
        undecided=sum(record.decision == Decision.UNDECIDED for record in ended),
        turns=turns,
    )


def means(records: Iterable[Record], number: int) -> dict[str, float]:
    """Return the mean of each metric over `number` tries; one that has none, since it broke off, counts 0."""
    sums: dict[str, float] = defaultdict(float)
    for record in records:
        for name, value in record.metrics.items():
            sums[name] += value
    return {name: sums[name] / number for name in sorted(sums)}


def _reason(record: Record) -> str:
    return record.error if record.failed else record.decided_by
