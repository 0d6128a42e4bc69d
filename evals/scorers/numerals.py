"""Numbers in a text, in figures and in words: 1,234, 2 1/2, 2.5e3, 25 million, minus seven."""

import re
from fractions import Fraction

_DIGITS = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d{1,3}(?: \d{3})+(?!\d|[.,/]\d)|\d+)"
_SCALES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12, "dozen": 12}
_NUMBER = re.compile(
    rf"(?<![\w.,])(?<!\d[:/])(?P<sign>[+-]|\b(?:minus|negative) )?(?:(?P<whole>\d+) (?=\d+/))?"
    rf"(?P<digits>{_DIGITS}(?:\.\d+)?|\.\d+)"
    rf"(?:/(?P<below>\d+)|e(?P<exponent>[+-]?\d{{1,2}})(?!\d)| ?\* ?10\^[{{(]?(?P<ten>[+-]?\d{{1,2}})[}})]?"
    rf"|(?: (?P<scale>{'|'.join(_SCALES)})\b))?(?![\d_]|:\d)(?!,\d)",
    re.IGNORECASE,
)
_CLEANED = (
    (re.compile(r"^[> ]+(?=[^\s\d.+(-])", re.MULTILINE), ""),  # quotes and prompts
    (re.compile(r"(?<= )([*_])([\d.,]{1,30})\1(?![*\w])"), r"\2"),  # italics
    (re.compile(r"[`\"“”]|(?<![\d)])\*\*|\*\*(?![\d(])|^[*_ ]{1,9}(?=\S)|(?<=[^\s*_])[*_]{1,9}$", re.MULTILINE), ""),
    (re.compile(r"[€£¥₹]|\b(?:US)?\$|\\(?:angle|triangle|quad|qquad|therefore|mathrm)(?![a-zA-Z])"), " "),
    (re.compile(r"\([A-E]\)[.:]? ?(?=-?[\d.])"), ""),  # the letter of a multiple-choice option before a number
    (re.compile(r"(?<=[a-z])_(?:\w|\{\w{1,3}\})", re.IGNORECASE), ""),
    (re.compile(r"(?<=\d) ?per ?cent\b", re.IGNORECASE), "%"),
    (re.compile(r"(?<=\d)['’](?=\d{3}(?!\d))"), ","),
    (re.compile(r"- ?\(-(?=[\d.,/]{1,60}\))"), "+("),
    (re.compile(r"([+-]?) ?(?<![a-z])\(([+-]?[\d.,/]{1,60})\)", re.IGNORECASE), r" \1\2 "),
)

_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
)
_WORDS = {word: value for value, word in enumerate(f"{_ONES} eighteen nineteen".split())} | {
    word: 10 * value for value, word in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split(), 2)
}
_WORD = rf"(?:{'|'.join([*_WORDS, 'hundred', 'thousand', 'million'])})"
IN_WORDS = re.compile(rf"\b{_WORD}(?:(?: and |-| ){_WORD}){{0,12}}\b", re.IGNORECASE)
_TWICE = re.compile(rf"\b{_WORD}(?:(?: and |-| ){_WORD}){{0,12}} \((?=\d)", re.IGNORECASE)
_LONGEST = 60
"""Most characters of a number that is read; answers are shorter."""


def marked(text: str) -> tuple[str, list[Fraction | None]]:
    """Return `text` in lower case with # for each number, and the numbers; None for one that cannot be read."""
    lines = text.replace("#", " ").replace("\u2010", "-").replace("\u2011", "-").splitlines()
    text = "\n".join(" ".join(line.split()) for line in lines).strip("{} ")
    text = _TWICE.sub("(", text)
    for written, sign in _CLEANED:
        text = written.sub(sign, text)
    if not any(character.isdecimal() for character in text):
        text = IN_WORDS.sub(lambda match: str(from_words(match[0])), text)
    text = re.sub(r"[ \t]+", " ", text).strip()
    values = [_value(match) for match in _NUMBER.finditer(text)]
    return _NUMBER.sub("#", text).lower(), values


def _value(match: re.Match[str]) -> Fraction | None:
    if len(match[0]) > _LONGEST or (match["below"] and not int(match["below"])):
        return None
    value = Fraction(re.sub("[, ]", "", match["digits"])) / int(match["below"] or 1)
    value = (value + int(match["whole"] or 0)) * Fraction(10) ** int(match["exponent"] or match["ten"] or 0)
    value *= _SCALES.get((match["scale"] or "").lower(), 1)
    return -value if (match["sign"] or "+")[0].lower() in "-mn" else value


def from_words(text: str) -> int:
    """Return the value of a number in words, up to millions."""
    total = group = 0
    for word in re.findall(r"[a-z]+", text.lower()):
        if word == "hundred":
            group = 100 * (group or 1)
        elif word in _SCALES:
            total, group = total + _SCALES[word] * (group or 1), 0
        elif word != "and":
            group += _WORDS[word]
    return total + group


def rounded_like(found: Fraction, expected: Fraction) -> Fraction | None:
    """Return `expected` rounded to as many decimals as `found` has; None if `found` has none."""
    decimals = next((places for places in range(1, 12) if (found * 10**places).denominator == 1), None)
    return None if found.denominator == 1 or decimals is None else round(expected, decimals)
