"""Audit of whether a score is due to the agent alone.

A sample is flagged if a search received the question itself, if a result copies the question, if a page with the
benchmark's answers was read, or if a language model answered that is not one of the run's. A flag marks a turn for
review; it does not prove a leak. Flags are derived from the turns as stored in memory: the agent did not see tool
output that was cut there.

Texts are compared as words, without tags, entities, invisible characters, accents, underscores, case and punctuation. A
copy has three quarters of the question's 3-grams, or 13 consecutive words of it. A page is recognised by its address,
also inside another address (archives, proxies), by the data set's name under another owner, and in the form in which
search engines show it. A question in other words is not found.
"""

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from urllib.parse import unquote, unquote_plus

from pydantic import BaseModel

from agentflow.evals.benchmarks.catalogue import BENCHMARKS
from agentflow.evals.benchmarks.readers import without_options
from agentflow.evals.benchmarks.subsets import words
from agentflow.evals.metrics import interval
from agentflow.evals.record import EvaluationSettings, Record
from agentflow.evals.scorers.score import Decision
from agentflow.graph.run.trace import TraceTurn
from agentflow.tools.card import RUN, UNKNOWN
from agentflow.tools.catalogue import OFFLINE_TOOLS
from agentflow.tools.providers.provider import model_in
from agentflow.tools.result import ErrorClass
from agentflow.tools.untrusted_text import bounded_line

UNSENT = (ErrorClass.BAD_PLAN, ErrorClass.UNKNOWN_TOOL, ErrorClass.BAD_ARGUMENTS, ErrorClass.REFUSED)
"""Error classes of tool calls that were not made."""
LONGEST = 50_000
"""Characters of a call's arguments and of a result that are read, counted from the start, which bounds the time."""
GRAM, NEAR = 3, 0.75
"""Words of a gram, and the lowest share of the question's grams in a text that repeats the question."""
COPY = 8
"""Fewest words of a question whose copies in results are reported; a shorter one may be the heading of any page."""
RUN_OF_WORDS = 13
"""Consecutive words of a question that make a text a copy of it.

Source: T. Brown et al., "Language models are few-shot learners", 2020, appendix C."""

_VALUE = r"""(?:"[^"<>]*"|'[^'<>]*'|[^\s<>"']+)"""
_TAG = re.compile(rf"</?[a-z][a-z0-9]*(?:\s+[\w:-]+\s*=\s*{_VALUE})*\s*/?>", re.IGNORECASE)
"""A tag of HTML. Attributes need a value, so that prose between angle brackets is none."""
_BREAK = re.compile(r"-\n\s*")
_HUB = re.compile(r"(?:www\.)?(?:hf\.co(?=/)|hf-mirror\.com|huggingface-co\.translate\.goog)")
_GITHUB = re.compile(
    r"(?:www\.)?(?:raw\.githubusercontent\.com|github-com\.translate\.goog|cdn\.jsdelivr\.net/gh|raw\.githack\.com)"
)
_PORT = re.compile(r"(?<=[a-z]):\d{1,5}(?=/)")
_DATASET = re.compile(r"(?:/datasets/|[?&]dataset=)([\w.-]{1,100})(?:/([\w.-]{1,100}))?")


class FlagReason(StrEnum):
    """Reason why a turn is flagged."""

    QUESTION = "question as query"
    """A tool that may search received the question itself."""
    PAGE = "benchmark's own page"
    """A call or its result contains an address that the benchmark's definition lists (`Benchmark.own_pages`), or a
    mirror of it."""
    COPY = "copy of the question"
    """A result repeats the question, beyond the text of the call: a copy of the benchmark."""
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
    flags: list[Flag]


class Audit(BaseModel):
    """The flagged samples of one benchmark."""

    benchmark: str
    reasons: dict[FlagReason, int]
    """Samples by reason; one sample may have several."""
    accuracy: float
    """Accuracy if every flagged sample counts as wrong."""
    low: float
    high: float
    """95 % interval of that accuracy."""
    items: list[Flagged]


def audit(benchmark: str, records: Sequence[Record], questions: int, epochs: int, models: Mapping[str, str]) -> Audit:
    """Return the audit of one benchmark's records; its accuracy is of `questions * epochs` samples, ended or not.

    `models` has the model's name for each tool that has a language model of its own.
    """
    found = {record.key: flags for record in records if (flags := flags_of(record, models))}
    strict = [record.model_copy(update={"decision": Decision.INCORRECT}) if record.key in found else record
              for record in records]  # fmt: skip
    low, high = interval(strict, questions, epochs)
    return Audit(
        benchmark=benchmark,
        reasons=counted(found.values()),
        accuracy=sum(record.correct for record in strict) / max(1, questions * epochs, len(records)),
        low=low,
        high=high,
        items=[Flagged(id=id, sample=sample, flags=flags) for (_, id, sample), flags in found.items()],
    )


def counted(tries: Iterable[Iterable[Flag]]) -> dict[FlagReason, int]:
    """Return the number of samples with each reason, in the order of `FlagReason`."""
    counts = Counter(reason for flags in tries for reason in {flag.reason for flag in flags})
    return {reason: counts[reason] for reason in FlagReason if counts[reason]}


def own_models(settings: EvaluationSettings) -> dict[str, str]:
    """Return the tools that declare their own language model, with its name."""
    tools = {name: tool.model for made in settings.provenance for name, tool in made.tools.items()}
    return {name: model for name, model in tools.items() if model not in ("", RUN, UNKNOWN)}


def flags_of(record: Record, models: Mapping[str, str]) -> list[Flag]:
    """Return the flags of one sample, turn by turn. `models` are as in `audit`."""
    asked = QuestionMatcher(without_options(record.task.question))
    pages = BENCHMARKS[record.benchmark].own_pages if record.benchmark in BENCHMARKS else ()
    calls = [turn for turn in record.turns if _may_search(turn)]
    return [flag for turn in calls for flag in _flags(turn, asked, pages, models)]


def _may_search(turn: TraceTurn) -> bool:
    """Return whether a call was made to a tool that may look something up, which are all but `OFFLINE_TOOLS`."""
    return turn.tool not in ("", *OFFLINE_TOOLS) and turn.result.error not in UNSENT


def _flags(
    turn: TraceTurn, asked: "QuestionMatcher", pages: Collection[str], models: Mapping[str, str]
) -> Iterator[Flag]:
    def flag(reason: FlagReason, detail: str = "") -> Flag:
        return Flag(turn=turn.turn, tool=turn.tool, reason=reason, detail=detail)

    given, output = [*_strings(turn.arguments)], turn.result.output
    if asked.is_query(unquote_plus(" ".join(given))):
        yield flag(FlagReason.QUESTION)
    if turn.result.error:
        return
    if page := own_page("\n".join([*given, output]), pages):
        yield flag(FlagReason.PAGE, page)
    if asked.is_copied(output, given):
        yield flag(FlagReason.COPY)
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


class QuestionMatcher:
    """Compares texts with one question."""

    def __init__(self, question: str) -> None:
        """Prepare the comparison."""
        self._words = plain_words(question)
        self._grams = _grams(self._words, min(GRAM, len(self._words)))
        self._runs = _grams(self._words, RUN_OF_WORDS)

    def share(self, found: str) -> float:
        """Return the share of the question's 3-grams in the spaced words `found`, 0 to 1; 0 for an empty question."""
        return sum(gram in found for gram in self._grams) / len(self._grams) if self._grams else 0.0

    def is_query(self, text: str) -> bool:
        """Return whether `text`, the arguments of a tool call, is the question."""
        return self.share(spaced(plain_words(text[:LONGEST]))) >= NEAR

    def is_copied(self, text: str, given: Sequence[str]) -> bool:
        """Return whether `text`, the result of a tool call, repeats the question.

        Text that repeats `given`, the strings of the call's arguments, does not count.
        """
        if len(self._words) < COPY:
            return False
        found = spaced(plain_words(text[:LONGEST]))
        for one in given:
            found = found.replace(spaced(plain_words(one[:LONGEST])), "  ")
        return self.share(found) >= NEAR or any(run in found for run in self._runs)


def plain_words(text: str) -> list[str]:
    """Return the words of a text, normalised as described in the module's docstring."""
    shown = html.unescape(_TAG.sub(" ", _BREAK.sub("", text))).replace("_", " ")
    apart = unicodedata.normalize("NFKD", shown)
    return words("".join(one for one in apart if unicodedata.category(one) not in ("Cf", "Mn")))


def spaced(found: Sequence[str]) -> str:
    """Join words with a space on both sides of each, so that one text can be searched for in another."""
    return f" {' '.join(found)} "


def _grams(found: Sequence[str], size: int) -> set[str]:
    return {spaced(found[at : at + size]) for at in range(len(found) - size + 1)} if size else set()


def own_page(text: str, pages: Collection[str]) -> str:
    """Return the first of `pages`, each as host/path, whose address or mirror occurs in `text`; "" if none does."""
    shown = _as_address(text[:LONGEST]) if pages else ""
    datasets = {name for found in _DATASET.findall(shown) for name in found if name}
    for page in pages:
        known = page.casefold()
        alone = rf"(?<![\w-]){re.escape(known)}(?![\w-])"  # not as part of a longer name
        if re.search(alone, shown) or known.partition("/datasets/")[2].rpartition("/")[2] in datasets:
            return page
    return ""


def _as_address(text: str) -> str:
    shown = _PORT.sub("", unquote(unquote(text)).casefold().replace(" › ", "/"))
    return _GITHUB.sub("github.com", _HUB.sub("huggingface.co", shown))
