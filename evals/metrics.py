"""What an evaluation comes to: accuracy with its interval, turns, tool calls, cost. Pure functions of its records."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

from agentflow.evals.episode import Tokens
from agentflow.evals.runner import Item, Record
from agentflow.tools.result import ErrorClass

UNREADABLE = (ErrorClass.BAD_PLAN, ErrorClass.UNKNOWN_TOOL)
"""Error classes of a planner's output that names no tool that can be run."""


def wilson(successes: int, number: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's score interval of a proportion, 95 % for z = 1.96; (0, 1) when nothing was tried.

    Source: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22, 1927.
    """
    if number == 0:
        return 0.0, 1.0
    share, square = successes / number, z * z / number
    centre = (share + square / 2) / (1 + square)
    half = z * sqrt(share * (1 - share) / number + square / (4 * number)) / (1 + square)
    return max(0.0, centre - half), min(1.0, centre + half)


def interval(items: Sequence[Item], records: dict[str, Record]) -> tuple[float, float]:
    """95 % interval of the accuracy: Wilson's; where questions were tried several times, from the spread between the
    questions' own means (standard error of a cluster mean), since tries of one question are not independent."""
    tries: dict[str, list[bool]] = defaultdict(list)
    for item in items:
        tries[item.question].append(item.id in records and records[item.id].correct)
    means = [sum(tried) / len(tried) for tried in tries.values()]
    if all(len(tried) == 1 for tried in tries.values()):
        return wilson(round(sum(means)), len(means))
    centre, half = fmean(means), 1.96 * stdev(means) / sqrt(len(means)) if len(means) > 1 else 1.0
    return max(0.0, centre - half), min(1.0, centre + half)


@dataclass(frozen=True)
class Group:
    """Items of one family, or all of them."""

    name: str
    number: int
    """Items of the dataset, whether or not they ended."""
    correct: int
    turns: int

    @property
    def accuracy(self) -> float:
        """Correct items over items of the dataset."""
        return self.correct / self.number if self.number else 0.0

    @property
    def mean_turns(self) -> float:
        """Turns per item of the dataset."""
        return self.turns / self.number if self.number else 0.0


@dataclass(frozen=True)
class Summary:
    """The figures of an evaluation."""

    families: list[Group]
    """In the order in which the dataset brings them."""
    total: Group
    errors: Counter[str]
    """Failed turns by error class."""
    tools: Counter[str]
    """Turns by the tool that was chosen, where the plan could be read."""
    sources: Counter[str]
    """Results by what the search tools say they come from, a language model behind it included."""
    readable: int
    """Turns whose plan could be read and named a tool."""
    failures: Counter[str]
    """Runs that broke off, by reason. They count as wrong."""
    tokens: Tokens
    calls: int
    seconds: float
    """Mean wall-clock time of an item."""

    @property
    def error_rate(self) -> float:
        """Failed turns over turns."""
        return self.errors.total() / self.total.turns if self.total.turns else 0.0

    @property
    def readable_rate(self) -> float:
        """Planner outputs that could be read and named a tool, over all."""
        return self.readable / self.total.turns if self.total.turns else 0.0


def summarise(items: Sequence[Item], records: dict[str, Record]) -> Summary:
    """The summary over `items`; `records` are by item id. An item without a record is wrong, and so is a failed one."""
    ended = [records[item.id] for item in items if item.id in records]
    turns = [turn for record in ended for turn in record.episode.turns]
    readable = [turn for turn in turns if turn.result.error not in UNREADABLE]
    return Summary(
        families=[_group(family, items, records) for family in dict.fromkeys(item.family for item in items)],
        total=_group("", items, records),
        errors=Counter(turn.result.error.value for turn in turns if turn.result.error),
        tools=Counter(turn.tool for turn in readable if turn.tool),
        sources=Counter(turn.result.provider for turn in turns if turn.result.provider),
        readable=len(readable),
        failures=Counter(record.episode.error for record in ended if record.failed),
        tokens=sum((tokens for record in ended for tokens in record.episode.usage.models.values()), Tokens()),
        calls=sum(record.episode.usage.calls for record in ended),
        seconds=sum(record.episode.seconds for record in ended) / max(1, len(ended)),
    )


def _group(name: str, items: Sequence[Item], records: dict[str, Record]) -> Group:
    """The items of family `name`, or all of them if it is empty."""
    members = [item for item in items if name in ("", item.family)]
    ended = [records[item.id] for item in members if item.id in records]
    correct = sum(record.correct for record in ended)
    return Group(name, len(members), correct, sum(len(record.episode.turns) for record in ended))
