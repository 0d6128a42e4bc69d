"""Numbers in a text, in figures and in words: 1,234, 2 1/2, 2.5e3, 25 million, minus seven."""

import re
from fractions import Fraction

_DIGITS = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d{1,3}(?: \d{3})+(?!\d|[.,/]\d)|\d+)"
_PARTS = {"half": 2, "halve": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6, "eighth": 8}
_PARTS |= {"tenth": 10, "hundredth": 100, "thousandth": 1000}
SCALES = {word: Fraction(1, parts) for word, parts in _PARTS.items()}
SCALES |= {"hundred": Fraction(100), "thousand": Fraction(10**3), "million": Fraction(10**6), "dozen": Fraction(12)}
SCALES |= {"billion": Fraction(10**9), "trillion": Fraction(10**12), "lakh": Fraction(10**5), "crore": Fraction(10**7)}
_UNSURE = (
    r"k|(?-i:[MBT]|MM)|[bmt]n|ml[nd]|mio|mrd|tsd|mille|milliers?|mil|mila|tausend|hundert|lacs?|gross|scores?|bps"
    r"|basis points?|per ?mille?|[a-z]{0,9}illi?(?:on|ard)[a-z]{0,3}"
)
"""Words that change the value of a number, in a way that is not the same everywhere."""
_NUMBER = re.compile(
    rf"(?<![\w.,])(?<!\d[:/])(?P<sign>[+-]|\b(?:minus|negative) )?(?:(?P<whole>\d+) (?=\d+/))?"
    rf"(?P<digits>{_DIGITS}(?:\.\d+)?|\.\d+)"
    rf"(?:/(?P<below>\d+)|e(?P<exponent>[+-]?\d{{1,2}})(?!\d)| ?\* ?10\^[{{(]?(?P<ten>[+-]?\d{{1,2}})[}})]?"
    rf"|[ -](?P<scale>{'|'.join(SCALES)})(?P<plural>s?)\b| ?(?P<unsure>{_UNSURE})\b)?(?![\d_]|:\d)(?!,\d)",
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
    if len(match[0]) > _LONGEST or match["unsure"] or (match["below"] and not int(match["below"])):
        return None
    value = Fraction(re.sub("[, ]", "", match["digits"])) / int(match["below"] or 1)
    value = (value + int(match["whole"] or 0)) * Fraction(10) ** int(match["exponent"] or match["ten"] or 0)
    scale = SCALES.get((match["scale"] or "").lower(), 1)
    if scale < 1 and value != 1 and not match["plural"]:  # 21 third graders
        return None
    value *= scale
    return -value if (match["sign"] or "+")[0].lower() in "-mn" else value


def from_words(text: str) -> int:
    """Return the value of a number in words, up to millions."""
    total = group = 0
    for word in re.findall(r"[a-z]+", text.lower()):
        if word == "hundred":
            group = 100 * (group or 1)
        elif word in SCALES:
            total, group = total + int(SCALES[word]) * (group or 1), 0
        elif word != "and":
            group += _WORDS[word]
    return total + group


def near(found: Fraction, expected: Fraction) -> bool:
    """Return whether one of two numbers may be the other, rounded; a whole number is expected exactly."""
    gap = abs(found - expected)
    if gap >= 1 or expected.denominator == 1:
        return not gap
    exact = [places for one in (found, expected) for places in range(12) if (one * 10**places).denominator == 1]
    return any(gap * (10**places if places else 2) < 1 for places in exact)
