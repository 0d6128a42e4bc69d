"""Numbers, compared exactly: AIME, AMC.

An answer that holds one number is that number, however it is written: 1,234, \\frac{3}{4}, 2.50, "42 miles". Percent
signs and units are not converted: 50 % is 50. One that holds several, or hedges ("not 41 but 42"), or calculates, is
undecided: to take the first or the last number there would accept and reject at random.
"""

import re
from fractions import Fraction

from agentflow.evals.scorers.final import final_answer, refuses
from agentflow.evals.scorers.latex import plain
from agentflow.evals.scorers.score import Score, decided, undecided

RULE = "number"

_DIGITS = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)"
_NUMBER = re.compile(
    rf"(?<![\w.])[+-]?(?:{_DIGITS}(?:\.\d+)?|\.\d+)(?:/\d+|e[+-]?\d{{1,2}}(?!\d))?(?![\d_])", re.IGNORECASE
)
_SIGNED_BRACKET = re.compile(r"([+-]?) ?\(([+-]?[\d.,/]{1,60})\)")
_LAST_SIDE = re.compile(r"[^=]*=([^=\d]{0,3}[\d,./]{1,60})[^=\w]*")
_CALCULATES = re.compile(r"[\\^√π<>{}]|# ?[-+*/]{1,2} ?#|#[a-z]\b", re.IGNORECASE)
"""With # for each number: powers, roots, operations, and variables as in 2x."""
_HEDGES = re.compile(
    r"\b(?:not|never|neither|nor|no|or|wrong|incorrect|except|unlike|rather|instead|between|about|approximately|around"
    r"|roughly|nearly|almost|than|least|most|over|under|maybe|perhaps|possibly|either|if|unless|suppose|false|ignore|gold"
    r"|judge)\b|n['’]t\b|[~≈±≠≤≥]|!="
)
"""In lower case, which is found faster than any case is."""
_LONGEST = 60
"""Digits of a number; no answer has as many."""


def number(answer: str, gold: str) -> Score:
    """Whether `answer` is the number `gold`."""
    text = plain(final_answer(answer))
    if not text or refuses(text):
        return decided(False, "no answer")
    expected = as_number(gold)
    if expected is None:
        return undecided("the gold answer is no number")
    found = as_number(text)
    if found is None:
        return undecided("no single number")
    return decided(found == expected, RULE)


def as_number(text: str) -> Fraction | None:
    """The one number that `text` states; None where there is none, or it cannot be told which."""
    text = _SIGNED_BRACKET.sub(r" \1\2 ", " ".join(plain(text).split()))
    if _HEDGES.search(text.lower()):
        return None
    if side := _LAST_SIDE.fullmatch(text):
        text = side[1]
    around = _NUMBER.sub("#", text)
    if _CALCULATES.search(around) or any(character.isdigit() for character in around):
        return None
    values = {_value(match[0]) for match in _NUMBER.finditer(text)}
    return values.pop() if len(values) == 1 else None


def _value(token: str) -> Fraction | None:
    above, _, below = token.replace(",", "").partition("/")
    if len(token) > _LONGEST or (below and not int(below)):
        return None
    return Fraction(above) / int(below or 1)
