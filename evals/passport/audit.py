"""Audit of whether a score is due to the agent alone.

A sample is flagged if a search received the question itself, if a page with the benchmark's answers was read, or if a
language model answered that is not one of the run's. A flag marks a turn for review; it does not prove a leak. Flags
are derived from the turns as stored in memory: the agent did not see tool output that was cut there. `leaks` defines
what counts as the question, a copy and a page.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from urllib.parse import unquote_plus

from pydantic import BaseModel

from agentflow.evals.benchmarks.readers import without_options
from agentflow.evals.metrics import interval
from agentflow.evals.passport.leaks import QuestionMatcher, own_page
from agentflow.evals.record import Record
from agentflow.evals.scorers.score import Decision
from agentflow.graph.run.trace import TraceTurn
from agentflow.tools.catalogue import OFFLINE_TOOLS
from agentflow.tools.providers.provider import model_in
from agentflow.tools.result import ErrorClass
from agentflow.tools.untrusted_text import bounded_line

UNSENT = (ErrorClass.BAD_PLAN, ErrorClass.UNKNOWN_TOOL, ErrorClass.BAD_ARGUMENTS, ErrorClass.REFUSED)
"""Error classes of tool calls that were not made."""


class FlagReason(StrEnum):
    """Reason why a turn is flagged."""

    QUESTION = "question as query"
    """A tool that may search received the question itself or a rewording of all of it."""
    PAGE = "benchmark's own page"
    """A call or its result contains an address that the benchmark's definition lists (`Benchmark.own_pages`), or a
    mirror of it."""
    COPY = "copy of the question"
    """A result repeats the question or a rewording of it, beyond the text of the call: a copy of the benchmark."""
    KEY = "answer key"
    """A result lists answers without questions, including the gold answer."""
    ANSWER = "answer on such a page"
    """The gold answer occurs in a result that is flagged as a page or a copy."""
    MODEL = "model behind a tool"
    """A language model of the tool answered, which is not one of the run's models."""


class Flag(BaseModel):
    """A turn to review, with the reason. It contains no text of a benchmark."""

    turn: int
    tool: str
    reason: FlagReason
    detail: str = ""
    """The page, as in the benchmark's definition, or the model, as named by the tool."""

    def __str__(self) -> str:
        return f"turn {self.turn}, {self.tool}: {self.reason}{f' ({self.detail})' if self.detail else ''}"


class Flagged(BaseModel):
    """A sample to review."""

    id: str
    """Id of the task."""
    sample: int
    correct: bool
    flags: list[Flag]


class Audit(BaseModel):
    """The flagged samples of one benchmark."""

    tries: int
    """Flagged samples among those that ended."""
    share: float
    """Flagged samples as a share of all samples of the dataset, 0 to 1."""
    correct: int
    """Flagged samples that count as correct."""
    reasons: dict[FlagReason, int]
    """Samples by reason; one sample may have several."""
    accuracy: float
    """Accuracy if every flagged sample counts as wrong."""
    low: float
    high: float
    """95 % interval of that accuracy."""
    items: list[Flagged]


def audit(
    records: Sequence[Record], questions: int, epochs: int, pages: Collection[str], models: Mapping[str, str]
) -> Audit:
    """Return the audit of one benchmark's records.

    Args:
        records: Records of the samples that ended.
        questions: Number of tasks in the dataset.
        epochs: Samples of each task; the denominator is `questions * epochs`.
        pages: The benchmark's own pages, as host/path.
        models: For each tool that has its own language model, the model's name.
    """
    found = {record.key: flags for record in records if (flags := flags_of(record, pages, models))}
    strict = [record.model_copy(update={"decision": Decision.INCORRECT}) if record.key in found else record
              for record in records]  # fmt: skip
    number = max(1, questions * epochs, len(records))
    low, high = interval(strict, questions, epochs)
    items = [
        Flagged(id=record.task.id, sample=record.sample, correct=record.correct, flags=found[record.key])
        for record in records
        if record.key in found
    ]
    return Audit(
        tries=len(items),
        share=len(items) / number,
        correct=sum(item.correct for item in items),
        reasons=counted(item.flags for item in items),
        accuracy=sum(record.correct for record in strict) / number,
        low=low,
        high=high,
        items=items,
    )


def counted(tries: Iterable[Iterable[Flag]]) -> dict[FlagReason, int]:
    """Return the number of samples with each reason, in the order of `FlagReason`."""
    counts = Counter(reason for flags in tries for reason in {flag.reason for flag in flags})
    return {reason: counts[reason] for reason in FlagReason if counts[reason]}


def flags_of(record: Record, pages: Collection[str], models: Mapping[str, str]) -> list[Flag]:
    """Return the flags of one sample, turn by turn. `pages` and `models` are as in `audit`."""
    question, gold = without_options(record.task.question, record.task.gold)
    asked = QuestionMatcher(question, gold, record.task.gold.partition(". ")[0] if gold != record.task.gold else "")
    calls = [turn for turn in record.turns if _may_search(turn)]
    return [flag for turn in calls for flag in _flags(turn, asked, pages, models)]


def _may_search(turn: TraceTurn) -> bool:
    """Return whether a call was made to a tool that may look something up, which are all but `OFFLINE_TOOLS`."""
    return turn.tool not in ("", *OFFLINE_TOOLS) and turn.result.error not in UNSENT


def _flags(
    turn: TraceTurn, asked: QuestionMatcher, pages: Collection[str], models: Mapping[str, str]
) -> Iterator[Flag]:
    def flag(reason: FlagReason, detail: str = "") -> Flag:
        return Flag(turn=turn.turn, tool=turn.tool, reason=reason, detail=detail)

    given, output = [*_strings(turn.arguments)], turn.result.output
    if asked.is_query(unquote_plus(" ".join(given))):
        yield flag(FlagReason.QUESTION)
    if turn.result.error:
        return
    page = own_page("\n".join([*given, output]), pages)
    if page:
        yield flag(FlagReason.PAGE, page)
    copy = asked.is_copied(output, given)
    if copy:
        yield flag(FlagReason.COPY)
    if asked.is_listed(output):
        yield flag(FlagReason.KEY)
    if (page or copy) and asked.answered_in(output):
        yield flag(FlagReason.ANSWER)
    if model := model_in(turn.result.provider) or models.get(turn.tool, ""):
        yield flag(FlagReason.MODEL, bounded_line(model, 120))


def _strings(value: object) -> Iterator[str]:
    """Yield every string in nested arguments."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _strings(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _strings(one)
