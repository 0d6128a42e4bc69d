"""Whether a score is the agent's: tries in which a search was given the question itself, a page was read that has the
benchmark's answers, or a language model answered that is none of the run's.

A flag says where to look, and not that anybody cheated. It is read off the turns as memory kept them: what a tool said
beyond that, the agent has not seen either. What counts as the question, a copy or a page is in `leaks`.
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
from agentflow.evals.trace import TraceTurn
from agentflow.tools.catalogue import OFFLINE_TOOLS
from agentflow.tools.providers.provider import model_in
from agentflow.tools.result import ErrorClass
from agentflow.tools.untrusted_text import bounded_line

UNSENT = (ErrorClass.BAD_PLAN, ErrorClass.UNKNOWN_TOOL, ErrorClass.BAD_ARGUMENTS, ErrorClass.REFUSED)
"""Error classes of a call that was not made."""


class Reason(StrEnum):
    """Why a turn is flagged."""

    QUESTION = "question as query"
    """A tool that may search was given the question itself, or another wording of all of it."""
    PAGE = "benchmark's own page"
    """A result names an address that the benchmark's definition lists (`Benchmark.own_pages`), or a mirror of it."""
    COPY = "copy of the question"
    """A result repeats the question, or another wording of it, beyond what the call said: somebody's copy of the
    benchmark."""
    KEY = "answer key"
    """A result lists answers without questions, the gold answer among them."""
    ANSWER = "answer on such a page"
    """The gold answer stands in a result that is flagged as one of the two."""
    MODEL = "model behind a tool"
    """A language model answered that is the tool's own, and none that the run has set."""


class Flag(BaseModel):
    """What is to be looked at. No text of a benchmark is in it."""

    turn: int
    tool: str
    reason: Reason
    detail: str = ""
    """The page, as the benchmark's definition has it; the model, as the tool calls it."""

    def __str__(self) -> str:
        return f"turn {self.turn}, {self.tool}: {self.reason}{f' ({self.detail})' if self.detail else ''}"


class Flagged(BaseModel):
    """A try that is to be looked at."""

    id: str
    """Of the question."""
    sample: int
    correct: bool
    flags: list[Flag]


class Audit(BaseModel):
    """The flagged tries of one benchmark."""

    tries: int
    """Flagged ones, of all that ended."""
    share: float
    """Of the tries of the dataset."""
    correct: int
    """Flagged ones that count as correct."""
    reasons: dict[Reason, int]
    """Tries by reason; one try may have several."""
    accuracy: float
    """If every flagged try is taken for wrong."""
    low: float
    high: float
    """95 % interval of that."""
    items: list[Flagged]


def audit(
    records: Sequence[Record], questions: int, epochs: int, pages: Collection[str], models: Mapping[str, str]
) -> Audit:
    """The audit of one benchmark's records.

    Args:
        records: What has ended.
        questions: Of the dataset.
        epochs: Tries of each; with the questions, the denominator.
        pages: The benchmark's own, as host/path.
        models: Of tools that have a language model of their own, its name.
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


def counted(tries: Iterable[Iterable[Flag]]) -> dict[Reason, int]:
    """Tries by reason, in the order of the reasons."""
    counts = Counter(reason for flags in tries for reason in {flag.reason for flag in flags})
    return {reason: counts[reason] for reason in Reason if counts[reason]}


def flags_of(record: Record, pages: Collection[str], models: Mapping[str, str]) -> list[Flag]:
    """What is to be looked at in one try, turn by turn; arguments as `audit` has them."""
    question, gold = without_options(record.task.question, record.task.gold)
    asked = QuestionMatcher(question, gold, record.task.gold.partition(". ")[0] if gold != record.task.gold else "")
    calls = [turn for turn in record.turns if _may_search(turn)]
    return [flag for turn in calls for flag in _flags(turn, asked, pages, models)]


def _may_search(turn: TraceTurn) -> bool:
    """Whether a call was made, of a tool that is not known to look nothing up."""
    return turn.tool not in ("", *OFFLINE_TOOLS) and turn.result.error not in UNSENT


def _flags(
    turn: TraceTurn, asked: QuestionMatcher, pages: Collection[str], models: Mapping[str, str]
) -> Iterator[Flag]:
    def flag(reason: Reason, detail: str = "") -> Flag:
        return Flag(turn=turn.turn, tool=turn.tool, reason=reason, detail=detail)

    given, said = [*_strings(turn.arguments)], turn.result.output
    if asked.is_query(unquote_plus(" ".join(given))):
        yield flag(Reason.QUESTION)
    if turn.result.error:
        return
    page = own_page("\n".join([*given, said]), pages)
    if page:
        yield flag(Reason.PAGE, page)
    copy = asked.is_copied(said, given)
    if copy:
        yield flag(Reason.COPY)
    if asked.is_listed(said):
        yield flag(Reason.KEY)
    if (page or copy) and asked.answered_in(said):
        yield flag(Reason.ANSWER)
    if model := model_in(turn.result.provider) or models.get(turn.tool, ""):
        yield flag(Reason.MODEL, bounded_line(model, 120))


def _strings(value: object) -> Iterator[str]:
    """Every text in arguments, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _strings(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _strings(one)
