"""Detection of leaks: a benchmark's question or answer in the arguments or the result of a tool call.

Texts are compared as words, without tags, entities, invisible characters, accents, underscores, case and punctuation.

- *A copy* contains three quarters of the question's 3-grams, or half of its words in pieces of six or more, or 13
  consecutive words. The last two criteria find copies that were cut.
- *A rewording* is a question of similar length with all names and numbers of the question, or a text with at least 80 %
  of its content words, compared by their first five letters. A rewording with other words and no names is not found.
- *An answer key* lists answers without questions: consecutively numbered letters or numbers, a field of a data set, or
  the text after "answer key".
- *A page of the benchmark* is recognised by its address, also inside another address (archives, proxies), by the data
  set's name under another owner, and in the form in which search engines show it.
"""

import html
import re
import unicodedata
from collections.abc import Collection, Sequence
from urllib.parse import unquote

from agentflow.evals.benchmarks.subsets import words

LONGEST = 50_000
"""Characters of a call's arguments and of a result that are read, counted from the start, which bounds the time."""
GRAM = 3
"""Words of a gram; a question with fewer words is one gram."""
NEAR = 0.75
"""Lowest share of the question's grams in a text that repeats the question."""
COPY = 8
"""Fewest words of a question whose copies in results are reported; a shorter one may be the heading of any page."""
PIECE, PIECES, LEAST = 6, 0.5, 9
"""A text is a cut copy if pieces of PIECE consecutive words cover a share of PIECES of the question's words, and at
least LEAST words. PIECE is longer than common phrases."""
RUN = 13
"""Consecutive words of a question that make a text a copy of it.

Source: T. Brown et al., "Language models are few-shot learners", 2020, appendix C."""
MEANING, SAME_MEANING = 7, 0.8
"""Fewest content words of a question whose rewordings are searched for, and the share of them that must recur."""
WINDOW = 12
"""Fewest content words of a question that is searched for in passages without a question mark."""
STEM = 5
"""Letters at the start of a word that are compared, so that inflections match."""

_VALUE = r"""(?:"[^"<>]*"|'[^'<>]*'|[^\s<>"']+)"""
_TAG = re.compile(rf"</?[a-z][a-z0-9]*(?:\s+[\w:-]+\s*=\s*{_VALUE})*\s*/?>", re.IGNORECASE)
"""A tag of HTML. Attributes need a value, so that prose between angle brackets is none."""
_BREAK = re.compile(r"-\n\s*")
_WORD = re.compile(r"\w+")
_SENTENCE = re.compile(r"(?<=[.!?\n])")
_ASKS = frozenset("what which who whom whose when where how in is are was were did does do of at on name".split())
_COMMON = frozenset(
    "a an the of in on at by to for from with and or nor but not as is are was were be been being do does did has have "
    "had which what who whom whose when where why how that this these those it its he she his her him they their them "
    "there than then if so such same other one ones also both only any all each some most more many much very about "
    "into over under between after before during while can could may might shall should will would you your i we our "
    "me my name following find give answer".split()
)

_HUB = re.compile(r"(?:www\.)?(?:hf\.co(?=/)|hf-mirror\.com|huggingface-co\.translate\.goog)")
_GITHUB = re.compile(
    r"(?:www\.)?(?:raw\.githubusercontent\.com|github-com\.translate\.goog|cdn\.jsdelivr\.net/gh|raw\.githack\.com)"
)
_PORT = re.compile(r"(?<=[a-z]):\d{1,5}(?=/)")
_DATASET = re.compile(r"(?:/datasets/|[?&]dataset=)([\w.-]{1,100})(?:/([\w.-]{1,100}))?")
_KEY = re.compile(
    r"answer[\s_-]{0,3}keys?\b|gold(?:en)?[\s_-]{0,3}(?:answer|label)s?\b|ground[\s_-]{0,3}truths?\b"
    r"|reference[\s_-]{0,3}answers?\b|answer_idx\b|correct_(?:answer|option)\b"
)
_FIELD = re.compile(
    r"[\"'](?:final[ _]|correct[ _]|gold(?:en)?[ _])?(?:answers?|solution|label|target|gold|answer_idx)[\"']"
    r"\s{0,3}:\s{0,3}\[?\s{0,3}[\"']?([^\"'\[\]{},\n]{1,200})"
)
_ITEM = re.compile(r"(?<![\w.])(\d{1,3})[ \t]{0,3}[.):|=,;\t-][ \t]{0,3}\(?([A-Ja-j]|-?\d[\d.,/]{0,15})(?![\w/])")
_ITEMS = 5
"""Fewest consecutively numbered answers that count as an answer key."""
_AFTER = 12
"""Words after "answer key" and similar headings in which the gold answer is searched for."""


def plain_words(text: str) -> list[str]:
    """Return the words of a text, normalised as described in the module's docstring."""
    shown = html.unescape(_TAG.sub(" ", _BREAK.sub("", text))).replace("_", " ")
    apart = unicodedata.normalize("NFKD", shown)
    return words("".join(one for one in apart if unicodedata.category(one) not in ("Cf", "Mn")))


def spaced(found: Sequence[str]) -> str:
    """Join words with a space on both sides of each, so that one text can be searched for in another."""
    return f" {' '.join(found)} "


class QuestionMatcher:
    """Compares texts with one question and its gold answer."""

    def __init__(self, question: str, gold: str, letter: str = "") -> None:
        """Prepare the comparison. `letter` is the letter of the gold answer in multiple choice."""
        self.words = plain_words(question)
        self.gold = spaced(found) if (found := plain_words(gold)) else ""
        self._golds = [one for one in (self.gold, spaced(plain_words(letter)) if letter else "") if one]
        self._grams = _grams(self.words, min(GRAM, len(self.words)))
        self._pieces = [spaced(self.words[at : at + PIECE]) for at in range(len(self.words) - PIECE + 1)]
        self._runs = _grams(self.words, RUN)
        named = [word for word in _WORD.findall(question)[1:] if word != word.lower() or word[0].isdigit()]
        self._names = set(plain_words(" ".join(named))) - _COMMON
        self._stems = _stems(self.words)

    def share(self, found: str) -> float:
        """Return the share of the question's 3-grams in the spaced words `found`, 0 to 1; 0 for an empty question."""
        return sum(gram in found for gram in self._grams) / len(self._grams) if self._grams else 0.0

    def is_query(self, text: str) -> bool:
        """Return whether `text`, the arguments of a tool call, is the question or a rewording of it."""
        text = text[:LONGEST]
        found = plain_words(text)
        if self.share(spaced(found)) >= NEAR:
            return True
        lengths = len(found) / max(1, len(self.words))
        if self._asks(found, text) and 0.8 <= lengths <= 1.3 and self._names_all(found):
            return True
        return lengths <= 2 and self._means_the_same(found, MEANING)

    def is_copied(self, text: str, given: Sequence[str]) -> bool:
        """Return whether `text`, the result of a tool call, repeats the question, in full, in part or reworded.

        Text that repeats `given`, the strings of the call's arguments, does not count.
        """
        if len(self.words) < COPY:
            return False
        text = text[:LONGEST]
        found = spaced(plain_words(text))
        for one in given:
            found = found.replace(spaced(plain_words(one[:LONGEST])), "  ")
        if self.share(found) >= NEAR or any(run in found for run in self._runs) or self._in_pieces(found):
            return True
        sentences = [(plain_words(one), one) for one in _SENTENCE.split(text) if one.rstrip().endswith("?")]
        if any(self._reworded(words) for words, _ in sentences if spaced(words) in found):
            return True
        return self._in_passage(found.split())

    def is_listed(self, text: str) -> bool:
        """Return whether `text` is an answer key with the gold answer."""
        text = text[:LONGEST]
        fields = [spaced(plain_words(value)) for value in _FIELD.findall(text.casefold())]
        return any(gold in fields or _after_key(gold, text) or _numbered(gold, text) for gold in self._golds)

    def answered_in(self, text: str) -> bool:
        """Return whether `text` contains the gold answer."""
        return bool(self.gold) and self.gold in spaced(plain_words(text[:LONGEST]))

    def _asks(self, found: Sequence[str], text: str) -> bool:
        return text.rstrip().endswith("?") or (bool(found) and found[0] in _ASKS)

    def _names_all(self, found: Sequence[str]) -> bool:
        return len(self._names) >= 2 and self._names <= set(found) and len(self.words) >= COPY

    def _means_the_same(self, found: Sequence[str], fewest: int) -> bool:
        if len(self._stems) < fewest:
            return False
        return len(self._stems & _stems(found)) >= SAME_MEANING * len(self._stems)

    def _reworded(self, sentence: Sequence[str]) -> bool:
        lengths = len(sentence) / len(self.words)
        return (0.6 <= lengths <= 1.6 and self._names_all(sentence)) or (
            lengths <= 2 and self._means_the_same(sentence, MEANING)
        )

    def _in_pieces(self, found: str) -> bool:
        covered = {at + step for at, piece in enumerate(self._pieces) if piece in found for step in range(PIECE)}
        return len(covered) >= max(LEAST, PIECES * len(self.words))

    def _in_passage(self, found: Sequence[str]) -> bool:
        """Return whether a passage of at most 1.5 times the question's length has 80 % of its content words."""
        if len(self._stems) < WINDOW:
            return False
        size = len(self.words) * 3 // 2
        starts = range(0, max(1, len(found) - size // 2), max(1, size // 2))
        return any(self._means_the_same(found[at : at + size], WINDOW) for at in starts)


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


def _after_key(gold: str, text: str) -> bool:
    within = _AFTER if len(gold) > 5 else 4  # a single letter or digit easily occurs by chance
    folded = text.casefold()
    keys = (plain_words(folded[key.end() : key.end() + 300]) for key in _KEY.finditer(folded))
    return any(gold in spaced(found[:within]) for found in keys)


def _numbered(gold: str, text: str) -> bool:
    """Return whether a list of at least `_ITEMS` consecutively numbered answers contains the gold answer."""
    run: list[tuple[int, str]] = []
    for number, value in [*((int(n), value) for n, value in _ITEM.findall(text)), (0, "")]:
        if run and number != run[-1][0] + 1:
            if len(run) >= _ITEMS and any(spaced(plain_words(one)) == gold for _, one in run):
                return True
            run = []
        run.append((number, value))
    return False


def _grams(found: Sequence[str], size: int) -> set[str]:
    return {spaced(found[at : at + size]) for at in range(len(found) - size + 1)} if size else set()


def _stems(found: Sequence[str]) -> set[str]:
    return {word[:STEM] for word in found if word not in _COMMON}
