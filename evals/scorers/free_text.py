"""Scorer of short free-text answers: the metrics of the question-answering benchmarks, and a stricter decision.

Exact match (EM) and F1 are those of SQuAD's script, which HotpotQA, 2WikiMultihopQA and MuSiQue also use; they are
reported unchanged as metrics. The decision differs from EM in three ways. EM drops all punctuation, so that "-5" is
"5"; the decision drops only layout (`canonical`). A gold answer that is a date, a number, yes or no, an interval or a
set is compared by value. An answer that matches none of the accepted ones is undecided, not incorrect, because EM
rejects one right answer in seven (Istanbul, Constantinople); an F1 of 0 does not show that an answer is wrong either.

Sources: Rajpurkar et al., "SQuAD", EMNLP 2016 (evaluate-v1.1.py); Yang et al., "HotpotQA", EMNLP 2018
(hotpot_evaluate_v1.py: yes and no get no partial F1).
"""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from agentflow.evals.scorers.canonical import canonical, collection, same, without_brackets
from agentflow.evals.scorers.dates import as_date
from agentflow.evals.scorers.final import EMPHASIS, final_answer, refuses, stated
from agentflow.evals.scorers.latex import plain
from agentflow.evals.scorers.number import number
from agentflow.evals.scorers.score import Decision, Score, decided, undecided
from agentflow.evals.scorers.yes_no import yes_or_no

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_NUMBER = re.compile(r"[-+]?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:%| [tmb]r?illion| thousand)?")
_CALCULATION = re.compile(r"[-+(]*(?:\d{1,20}|\(-?\d{1,20}\))(?:[/^][({]?-?\d{1,20}[)}]?)?\)*")
_UNITS = re.compile("[%‰°€£¥₹]")
_LINK = re.compile(r"\b(?:is|was|are|were)(?: (?:in|on|at|called|named))?\Z")
_LINKS = {"it", "is", "was", "are", "were", "in", "on", "at", "called", "named"}
_NO_PARTIAL_F1 = {"yes", "no", "noanswer"}
_PREFERRED = (Decision.CORRECT, Decision.UNDECIDED, Decision.INCORRECT)
"""Precedence of decisions over several accepted answers: one match is correct; incorrect only if all are."""


def normalise(text: str) -> str:
    """Return SQuAD's normal form of `text`: lower case, single spaces, no punctuation and no articles.

    Unlike SQuAD's script, this also removes typographic punctuation, and keeps an article that is the whole text
    ("A+").
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    kept = "".join(one for one in folded if one not in string.punctuation and unicodedata.category(one)[0] != "P")
    return " ".join(_ARTICLES.sub(" ", kept).split()) or " ".join(kept.split())


def exact_match(answer: str, gold: str) -> float:
    """Return 1 if both have the same normal form, else 0."""
    return float(normalise(answer) == normalise(gold))


def f1(answer: str, gold: str) -> float:
    """Return the harmonic mean of the precision and recall of words, 0 to 1."""
    said, expected = normalise(answer), normalise(gold)
    if said != expected and _NO_PARTIAL_F1 & {said, expected}:
        return 0.0
    words, wanted = said.split(), expected.split()
    common = (Counter(words) & Counter(wanted)).total()
    return 2 * common / (len(words) + len(wanted)) if common else 0.0


def free_text(answer: str, golds: Sequence[str], question: str = "") -> Score:
    """Score whether `answer` is one of `golds`, alone or in words of `question`. `metrics` has the best em and f1."""
    text, golds = plain(final_answer(answer)).strip(EMPHASIS), [plain(gold) for gold in golds]
    metrics = {
        "em": max((exact_match(text, gold) for gold in golds), default=0.0),
        "f1": max((f1(text, gold) for gold in golds), default=0.0),
    }
    scores = [_one(text, gold, question) for gold in golds]
    best = min(scores, key=lambda score: _PREFERRED.index(score.decision), default=undecided("no gold answer"))
    return replace(best, metrics=metrics)


def gold_type(gold: str) -> str:
    """Return the type of a gold answer, which decides how answers are compared with it."""
    if normalise(gold) in ("yes", "no"):
        return "yes or no"
    if as_date(gold):
        return "date"
    if _NUMBER.fullmatch(gold) or _CALCULATION.fullmatch(gold):
        return "number"
    return "interval or set" if collection(gold) else "text"


def _one(text: str, gold: str, question: str) -> Score:
    alone, kind = stated(text), gold_type(gold)
    if any(same(one, gold) for one in (text, alone, without_brackets(text))):
        return decided(True, "exact match")
    if kind in ("text", "date") and _repeats(question, text, gold):
        return decided(True, "in a sentence")
    if not normalise(text):
        return decided(False, "no answer")
    if kind == "yes or no":
        said = yes_or_no(text)
        if said is not None:
            return decided(said == normalise(gold), kind)
        return decided(False, "no answer") if refuses(text) else undecided("no clear yes or no")
    if (date := as_date(alone)) and (expected := as_date(gold)) and (date == expected or not date.may_be(expected)):
        return decided(date == expected, kind)
    if kind == "number" and set(_UNITS.findall(text)) == set(_UNITS.findall(gold)):
        by_value = number(text, gold)
        sure = _NUMBER.fullmatch(gold) and any(map(str.isdecimal, text))  # MCMXI is a number, too
        if by_value.correct or (sure and by_value.decision == Decision.INCORRECT):
            return by_value
    if kind == "interval or set" and (found := collection(alone)):
        return decided(found == collection(gold), kind)
    return decided(False, "no answer") if refuses(text, [gold]) else undecided("not literally the gold answer")


def _repeats(question: str, text: str, gold: str) -> bool:
    """Return whether `text` is the gold answer in words of the question, "it is" and the like, and nothing else."""
    said, wanted, asked = canonical(text).split(), canonical(gold).split(), normalise(question).split()
    known = {*asked, *_LINKS, *(f"{word}s" for word in asked)}
    places = [at for at in range(len(said)) if said[at : at + len(wanted)] == wanted != [] and "or" not in asked]
    rests = [(normalise(" ".join(said[:at])), normalise(" ".join(said[at + len(wanted) :]))) for at in places]
    return any(
        (not before and after.split() == asked[1:])
        or (_LINK.search(before) and {*before.split(), *after.split()} <= known)
        for before, after in rests
    )
