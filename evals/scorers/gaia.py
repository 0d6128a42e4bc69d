"""Scorer of GAIA, "quasi-exact match": compares numbers, lists or texts, by the form of the gold answer.

Source: Mialon et al., "GAIA: a benchmark for General AI Assistants", 2023, and the scorer of its leaderboard. Its
peculiarities are kept, so that results are comparable: a text is compared without whitespace and punctuation, an
element of a list with its punctuation, and a gold answer of "1,234" is a list.
"""

import re
import string

from agentflow.evals.scorers.final import final_answer, stated
from agentflow.evals.scorers.score import Score, decided

RULE = "quasi-exact match"

_BLANK = re.compile(r"\s")
_SEPARATOR = re.compile(r"[,;]")
_NOT_PART_OF_NUMBERS = str.maketrans("", "", "$%,")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def quasi_exact(answer: str, gold: str) -> Score:
    """Score whether `answer` is `gold` by GAIA's rule; never undecided."""
    final = final_answer(answer)
    return decided(matches(final, gold) or matches(stated(final), gold), RULE)


def matches(answer: str, gold: str) -> bool:
    """Return whether an extracted `answer` matches `gold` by GAIA's rule."""
    if _is_number(gold):
        return _same_number(answer, gold)
    if not _SEPARATOR.search(gold):
        return _text(answer, _PUNCTUATION) == _text(gold, _PUNCTUATION)
    said, expected = _SEPARATOR.split(answer), _SEPARATOR.split(gold)
    return len(said) == len(expected) and all(
        _same_number(one, other) if _is_number(other) else _text(one) == _text(other)
        for one, other in zip(said, expected, strict=True)
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _same_number(answer: str, gold: str) -> bool:
    text = answer.translate(_NOT_PART_OF_NUMBERS)
    return _is_number(text) and float(text) == float(gold)


def _text(text: str, without: dict[int, int | None] | None = None) -> str:
    return _BLANK.sub("", text).lower().translate(without or {})
