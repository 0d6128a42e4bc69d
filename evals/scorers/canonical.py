"""The canonical form of a short answer: what is left of it when only layout is dropped.

SQuAD's normal form drops all punctuation, so that "-5" is "5", "[0, 1)" is "(0, 1]" and "C#" is "C". Here a mark is
dropped only where it cannot carry meaning: between words, not beside a digit, an operator or a single letter. What is
kept must be equal, so a new kind of mark leaves two answers different, and the scorer undecided.
"""

import math
import re
import unicodedata
from fractions import Fraction
from functools import lru_cache

from agentflow.evals.scorers.arithmetic import evaluate
from agentflow.evals.scorers.latex import plain

_LETTER = r"[^\W\d_]"
_LAYOUT = tuple(
    (re.compile(pattern), instead)
    for pattern, instead in (
        ("[‘’ʼ´]", "'"),
        ("[“”„«»]", '"'),
        ("[‐‑‒–—―−]", "-"),
        (r"\\([{}])", r"\1"),
        (r"\s+", " "),
        (r'(?<!\w)"(\S[^"]*)"(?!\w)', r"\1"),  # quotation marks, not inches
        (rf"(?<={_LETTER}{{2}} )\(({_LETTER}{{2}}[\w ,.]*)\)", r"\1"),  # an aside in words
        (rf"(?<={_LETTER}{{2}})[.,;:!?。…]+(?= |\Z)", ""),  # the end of a word
        (rf"(?<=\b{_LETTER})\.(?={_LETTER}\.)|(?<={_LETTER})\.(?=[ .]|\Z)", ""),  # an abbreviation
        (rf"(?<={_LETTER})[-'](?={_LETTER}{{2}})|(?<={_LETTER}{{2}})[-'](?={_LETTER})", ""),  # inside a word
        (r"(?<=[^\s.])[.。]\Z", ""),
        (r" ?([^\w\s.,'\"]) ?", r"\1"),
        (rf"(?<=\d) (?={_LETTER})", ""),  # before a unit
    )
)
_ARTICLES = re.compile(rf"(?:\A(?:[Aa]n?|[Tt]he)|(?<= )the) (?={_LETTER}{{2}})")
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")
_MEANT = re.compile(r"[^\w\s]|\d")
_WORD = re.compile(rf"\b{_LETTER}{{3,}}\b")
_COLLECTION = re.compile(r"(?:[a-z]∈)?([\[({])(.{1,200})([\])}])")
_QUOTED = re.compile(r"""(['"])[^'"]+\1""")
_LONGEST = 300
"""Characters of an interval or a set that is read, and beyond which an answer is longer than its gold answer may be."""
_INFINITE: dict[str, Fraction | float | None] = {"∞": math.inf, "+∞": math.inf, "-∞": -math.inf}


def same(answer: str, gold: str) -> bool:
    """Return whether two texts differ only in layout: case, accents, articles and punctuation between words.

    In a text with a digit or a mark, the case of units and symbols counts: "5 mW" is not "5 MW".
    """
    if len(answer) > 10 * len(gold) + _LONGEST:
        return False
    said, expected = _layout(answer), _layout(gold)
    if not (said and expected):
        return answer.strip() == gold.strip()
    return _folded(said) == _folded(expected) or canonical(answer) == canonical(gold)


def canonical(text: str) -> str:
    """Return `text` without layout: the same for texts that `same` does not tell apart."""
    return _folded(_ARTICLES.sub("", _layout(text)))


def collection(text: str) -> tuple[str, object] | None:
    """Return the brackets and the elements if `text` is an interval, a tuple or a set of numbers, else None."""
    found = _COLLECTION.fullmatch(_layout(text[:_LONGEST]).replace(", ", ","))
    if not found or len(text) > _LONGEST or (found[1] == "{") != (found[3] == "}"):
        return None
    elements = [_INFINITE.get(one, evaluate(one)) for one in found[2].split(",")]
    if (len(elements) < 2 and found[1] != "{") or None in elements:
        return None
    return found[1] + found[3], frozenset(elements) if found[1] == "{" else tuple(elements)


def without_brackets(text: str) -> str:
    """Return the elements of a list in a program's notation, `['fig', 'pear']`, as words would say them: fig, pear.

    Another text, and two numbers, which may be an interval, are returned as they are.
    """
    if not (text.startswith("[") and text.endswith("]")) or len(text) > _LONGEST:
        return text
    elements = [one.strip() for one in text[1:-1].split(",")]
    if all(map(_QUOTED.fullmatch, elements)):
        return ", ".join(one[1:-1] for one in elements)
    return ", ".join(elements) if len(elements) > 2 else text


@lru_cache(maxsize=1024)  # each option is compared with all others
def _layout(text: str) -> str:
    text = unicodedata.normalize("NFKC", plain(text)).strip()
    for pattern, instead in _LAYOUT:
        text = pattern.sub(instead, text).strip()
    if text.startswith(("[", "(", "{")):
        return text.replace(", ", ",")
    return _THOUSANDS.sub(lambda match: match[0].replace(",", ""), text)


def _folded(text: str) -> str:
    if not _MEANT.search(text):
        apart = unicodedata.normalize("NFKD", text.casefold())
        return "".join(one for one in apart if not unicodedata.combining(one))  # without accents
    return _WORD.sub(lambda word: word[0].casefold() if word[0].islower() or word[0].istitle() else word[0], text)
