"""Whether a score is the agent's: tries in which a search was given the question itself, a page was read that has the
benchmark's answers, or a language model answered that is none of the run's.

A flag says where to look, and not that anybody cheated. It is read off the turns as memory kept them: what a tool said
beyond that, the agent has not seen either.

*The question itself* is told by its 3-grams of words, case and punctuation aside: `nearness` is the share of them that
a text has, and NEAR of them is the question. So the question in another dress, or with words around it, has a nearness
of 1; of questions whose words all differ, one of 14 words or more is still found where a word was changed, and a query
that has less than three quarters of the words, as a part of the question does, is not.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from urllib.parse import parse_qs, unquote, unquote_plus, urlsplit

from pydantic import BaseModel

from agentflow.evals.benchmarks.readers import without_options
from agentflow.evals.benchmarks.subsets import words
from agentflow.evals.episode import EpisodeTurn
from agentflow.evals.metrics import interval
from agentflow.evals.record import Record
from agentflow.evals.scorers.score import Decision
from agentflow.tools.catalogue import OFFLINE_TOOLS
from agentflow.tools.containment import bounded_line
from agentflow.tools.providers.provider import model_in
from agentflow.tools.result import ErrorClass

GRAM = 3
"""Words of a gram; of a question that has fewer, all."""
NEAR = 0.75
"""Share of the question's grams from which on a text repeats it."""
COPY = 8
"""Fewest words of a question whose copy in a result is flagged: a shorter one may be the heading of any page."""

UNSENT = (ErrorClass.BAD_PLAN, ErrorClass.UNKNOWN_TOOL, ErrorClass.BAD_ARGUMENTS, ErrorClass.REFUSED)
"""Error classes of a call that was not made."""

SAME_HOST = {
    "hf.co": "huggingface.co",
    "hf-mirror.com": "huggingface.co",
    "raw.githubusercontent.com": "github.com",
}
"""Hosts that serve what another one has, at the same paths."""

_URL = re.compile(r"https?://[^\s<>\"'`()\[\]{}]+", re.IGNORECASE)


class Reason(StrEnum):
    """Why a turn is flagged."""

    QUESTION = "question as query"
    """A tool that may search was given the question itself."""
    PAGE = "benchmark's own page"
    """A result names an address that the benchmark's definition lists (`Benchmark.own_pages`), or a mirror of it."""
    COPY = "copy of the question"
    """A result repeats the question, beyond what the call said: somebody's copy of the benchmark."""
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
        Flagged(id=record.id, sample=record.sample, correct=record.correct, flags=found[record.key])
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
    asked = _Asked(*map(words, without_options(record.question, record.gold)))
    calls = [turn for turn in record.episode.turns if _may_search(turn)]
    return [flag for turn in calls for flag in _flags(turn, asked, pages, models)]


def nearness(question: str, text: str) -> float:
    """The share of the question's grams that `text` has, 0 to 1; 0 if the question has no words."""
    return _Asked(words(question), []).share(_spaced(words(text)))


class _Asked:
    """A question and its gold answer, as words."""

    def __init__(self, question: Sequence[str], gold: Sequence[str]) -> None:
        size = min(GRAM, len(question))
        starts = range(len(question) - size + 1) if size else ()
        self.words = len(question)
        self.grams = {_spaced(question[at : at + size]) for at in starts}
        self.gold = _spaced(gold) if gold else ""

    def share(self, spaced: str) -> float:
        return sum(gram in spaced for gram in self.grams) / len(self.grams) if self.grams else 0.0

    def repeated_by(self, spaced: str) -> bool:
        return self.share(spaced) >= NEAR


def _may_search(turn: EpisodeTurn) -> bool:
    """Whether a call was made, of a tool that is not known to look nothing up."""
    return turn.tool not in ("", *OFFLINE_TOOLS) and turn.result.error not in UNSENT


def _flags(turn: EpisodeTurn, asked: _Asked, pages: Collection[str], models: Mapping[str, str]) -> Iterator[Flag]:
    def flag(reason: Reason, detail: str = "") -> Flag:
        return Flag(turn=turn.turn, tool=turn.tool, reason=reason, detail=detail)

    given = [*_strings(turn.arguments)]
    question = asked.repeated_by(_spaced(words(unquote_plus(" ".join(given)))))
    if question:
        yield flag(Reason.QUESTION)
    if turn.result.error:
        return
    page = own_page("\n".join([*given, turn.result.output]), pages)
    if page:
        yield flag(Reason.PAGE, page)
    said = _spaced(words(turn.result.output))
    for text in given if question else ():  # what a tool repeats of its call is no copy
        said = said.replace(_spaced(words(text)), "  ")
    copy = asked.words >= COPY and asked.repeated_by(said)
    if copy:
        yield flag(Reason.COPY)
    if (page or copy) and asked.gold and asked.gold in said:
        yield flag(Reason.ANSWER)
    if model := model_in(turn.result.provider) or models.get(turn.tool, ""):
        yield flag(Reason.MODEL, bounded_line(model, 120))


def own_page(text: str, pages: Collection[str]) -> str:
    """The first of `pages` that `text` has an address of, or of a mirror; "" if none."""
    for url in _URL.findall(text) if pages else ():
        try:
            parts = urlsplit(url.casefold())
        except ValueError:  # a bracket where an address of IPv6 would be
            continue
        host = (parts.hostname or "").removeprefix("www.")
        at = f"{SAME_HOST.get(host, host)}{unquote(parts.path)}/"
        sets = parse_qs(parts.query).get("dataset", [])
        for page in pages:
            known = page.casefold()
            dataset = known.partition("/datasets/")[2]
            if at.startswith(f"{known}/") or (dataset and (f"/datasets/{dataset}/" in at or dataset in sets)):
                return page
    return ""


def _spaced(said: Sequence[str]) -> str:
    """Words with a blank around each, so that those of one text can be looked for in another."""
    return f" {' '.join(said)} "


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
