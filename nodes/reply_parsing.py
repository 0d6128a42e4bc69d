"""Parsers of replies: `Label: value` lines, the format that every prompt asks for, and data written as JSON.

Models write the same reply in many forms: headings, bold, numbering, a code fence around it, JSON instead of lines. All
of them are parsed; the node that made the request interprets the values. No text makes these functions raise, except
where documented, and all take time linear in its length.
"""

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar

from agentflow.graph.models.reply import without_marks
from agentflow.tools.quiet import without_warnings

Labels = Mapping[str, Sequence[str]]
"""Maps each canonical label to its accepted spellings, the preferred one first.

Case, spaces and hyphens are ignored.
"""

MAX_OBJECTS = 50
"""Maximum number of opening braces that are tried, so that a long run of them does not take quadratic time."""

MAX_SOURCE = 20_000
"""Maximum number of characters of Python that are parsed."""

LONG = 2_000
"""Characters from which a reply is searched for repetitions."""

MAX_PERIOD = 2_000
"""Characters of the longest repeated text that is looked for."""

_COMMANDS = r"n(?:abla|exists|mid|otin)|t(?:au|binom|ext\{|extbf|extit|frac|heta|herefore|ilde|imes|riangle)"
_SHORT_COMMANDS = r"n(?:eg?q?|i|ot|u)|t(?:anh?|ext|op?)"
"""LaTeX that begins like JSON's line break or tab; the short ones are also the beginning of a line in a program."""

_LITERAL = re.compile(
    r"\\(?:\\|(?P<latex>[abcdeg-mo-qsvwyzA-MO-TV-Z][A-Za-z]++|[fr][A-Za-z]++|(?:" + _COMMANDS + r")(?![A-Za-z]))"
    r"|(?P<other>[ac-eg-mo-qsvwyzA-MO-TV-Z]|u(?![\da-fA-F]{4})|x(?![\da-fA-F]{2})|U(?![\da-fA-F]{8})|N(?!\{))"
    r"|(?P<unclear>[bf]|(?:" + _SHORT_COMMANDS + r")(?![A-Za-z])))"
)
_PATH = re.compile(r"(?<![^\s\"'(=])[C-Z]:(?:\\(?!u[0-9a-fA-F]{4})[^\s\\/:*?\"'<>|]{2,}+)+")

_FENCE = re.compile(r"```(\w?)")
"""A code fence, and the beginning of its language, which only an opening one has."""

_SEPARATORS = r"[ \t_‐‑–-]"  # includes typographic hyphens
_MARKUP = "*_`#>\"' \t"


def spoken(text: str) -> str:
    """Return what a reply says, without thoughts and end marks, with line ends normalised."""
    return without_marks(text).replace("\r\n", "\n").replace("\r", "\n").strip()


def unfence(reply: str) -> str:
    """Return `reply` without a code fence that encloses all of it, or that opens it and was never closed."""
    fences = reply.count("```")
    if reply.startswith("```") and (fences == 1 or (fences == 2 and reply.endswith("```"))):
        return reply.partition("\n")[2].removesuffix("```").strip()
    return reply


def without_loop(text: str) -> str:
    """Return a long reply without the repetitions at its end, into which weak models fall; two of them are kept."""
    if len(text) < LONG:
        return text
    for period in range(1, MAX_PERIOD + 1):
        length = max(3 * period, LONG // 2)
        if text[-length:-period] == text[period - length :]:
            break
    else:
        return text
    while length < len(text) and text[-length - 1] == text[-length - 1 + period]:
        length += 1
    kept = text[: len(text) - length + 2 * period]
    return f"{kept} [... {len(text) - len(kept)} characters of repetition cut ...]"


def bare(text: str) -> str:
    """Return `text` without surrounding markup, quotes and punctuation."""
    return text.strip().strip(_MARKUP + "[]<>().,:;!").strip()


def read_labels(text: str, labels: Labels, ends: Sequence[str] = ()) -> dict[str, str]:
    """Return the last non-empty value of each label in `text`. Labels that do not occur are absent.

    A value extends to the next label, to a label of `ends`, or to the end, over several lines. If a label occurs in
    several spellings, only the preferred one counts, so that a "Goal:" within a context is not taken for the
    "Sub-Goal:" above it.
    """
    reply = unfence(spoken(text))
    lines, data = _read_lines(reply, labels, ends), _read_json(reply, labels)
    return data if len(data) > len(lines) else lines


def data_objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the objects in `text` as JSON data: JSON objects anywhere, outer before inner, then a Python dict."""
    return (value for _, _, value in _objects(literal_backslashes(text)))


def literal_backslashes(text: str) -> str:
    r"""Return `text` with single backslashes doubled where they cannot be meant as escapes of JSON or Python.

    Those are the ones of LaTeX, regular expressions and Windows paths, as in `"\frac"`, `"\d+"` and `"C:\new"`, which
    would become control characters, or make the data unreadable.
    """
    if "\\" not in text:
        return text
    text = _PATH.sub(lambda match: match[0].replace("\\", r"\\"), text)
    latex = any(match["latex"] for match in _LITERAL.finditer(text))

    def doubled(match: re.Match[str]) -> str:
        literal = match["latex"] or match["other"] or (latex and match["unclear"])
        return f"\\{match[0]}" if literal else match[0]

    return _LITERAL.sub(doubled, text)


def parsed(source: str) -> ast.Module | None:
    """Return the syntax tree of Python source, or None if it is invalid or too long. Nothing is run."""
    if len(source) > MAX_SOURCE:
        return None
    with without_warnings():  # on "\d" in a model's text
        try:
            return ast.parse(source.strip())
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            return None


def as_data(literal: ast.expr) -> Any:
    """Return the value of a Python literal, which may contain JSON's true, false and null, as JSON data.

    Raises ValueError for another expression.
    """
    try:
        return _plain(ast.literal_eval(JsonNames().visit(literal)))
    except (TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError("no literal") from error


class JsonNames(ast.NodeTransformer):
    """Reads `true`, `false` and `null` in Python source as constants."""

    constants: ClassVar[dict[str, bool | None]] = {"true": True, "false": False, "null": None}

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Return the constant that a name stands for, or the name."""
        return ast.Constant(self.constants[node.id]) if node.id in self.constants else node


@lru_cache(maxsize=256)
def _key(label: str) -> str:
    return re.sub(_SEPARATORS, "", label.strip().lower())


def _read_lines(reply: str, labels: Labels, ends: Sequence[str]) -> dict[str, str]:
    spellings = (*ends, *(spelling for spellings in labels.values() for spelling in spellings))
    matches = list(_labels_of(reply, spellings))
    fenced = bool(matches) and reply.count("```", 0, matches[0].start()) % 2 == 1
    key_of = {spelling: _key(spelling) for spelling in {match["label"] for match in matches}}
    present = set(key_of.values())
    label_of = {
        next((_key(spelling) for spelling in spellings if _key(spelling) in present), ""): label
        for label, spellings in labels.items()
    }
    values: dict[str, str] = {}
    others = {_key(spelling) for spelling in ends}
    end = len(reply)
    for match in reversed(matches):
        label = label_of.get(key_of[match["label"]])
        if key_of[match["label"]] in others:
            if "=" not in match[0]:  # our own labels have a colon: this is `result = 3` in a program
                end = match.start()
        elif label is not None:
            if label not in values and (value := _clean(reply[match.end() : end], fenced)):
                values[label] = value
            end = match.start()
    return values


def _labels_of(reply: str, spellings: tuple[str, ...]) -> Iterator[re.Match[str]]:
    """Yield the labels in `reply`, but not those inside a code fence that opens in a value: a program's variables."""
    fences = [(found.start(), bool(found[1]) or not at % 2) for at, found in enumerate(_FENCE.finditer(reply))]
    labelled, at, closed = False, 0, -1
    for match in label_pattern(spellings).finditer(reply):
        while at < len(fences) and fences[at][0] < match.start():
            start, opens = fences[at]
            at += 1
            if labelled and opens and start > closed and at < len(fences):
                closed = fences[at][0]
        if match.start() > closed:
            labelled = True
            yield match


@lru_cache(maxsize=64)
def label_pattern(spellings: tuple[str, ...]) -> re.Pattern[str]:
    """Return the pattern of a label in one of `spellings` at the beginning of a line."""
    words = "|".join(spelling.replace(" ", f"{_SEPARATORS}?") for spelling in sorted(spellings, key=len, reverse=True))
    # Line start, then quotes, heading marks, bullets, numbering; then the label, then a colon or the end of a heading.
    # Possessive, so that a long run of marks is scanned once; ASCII, so that case folding stays within a-z.
    return re.compile(
        rf"^[ \t>]*+(?:[#*+-]++[ \t]*+)?(?:\(?\d{{1,2}}[.):][ \t]*+)?[*_`]*+(?P<label>{words})[*_`]*+"
        rf"(?:[ \t]*+[:：=][*_`]*+|[ \t]*+$)",
        re.IGNORECASE | re.MULTILINE | re.ASCII,
    )


def _clean(value: str, fenced: bool) -> str:
    value = value.strip()
    if value.count("```") % 2:
        # A fence opened before the first label, closed after the last value. Prose may follow it.
        value = (value.rpartition("```")[0] if fenced else value.removesuffix("```")).rstrip()
    if not value.startswith("```"):
        value = re.sub(r"^[*_]+(?=\s|$)|(?<=\s)[*_]+$", "", value).strip()
        if value.count("**") == 1:  # bold from the label to the end of the line
            value = value.removesuffix("**").rstrip()
    # The number of the next item of a numbered list belongs to that item.
    return re.sub(r"\n[ \t]*(?:\(?\d{1,2}[.)]|[-*#]+)[ \t]*$", "", value)


def _read_json(reply: str, labels: Labels) -> dict[str, str]:
    """Return the values of the last object with the most labels. An object within a sentence is a quotation and is
    skipped.
    """
    values: dict[str, str] = {}
    reply = literal_backslashes(reply)
    for start, end, found in _objects(reply):
        before, after = reply[:start].rpartition("\n")[2], reply[end:].partition("\n")[0]
        amid = re.search(r"\w", before) and re.search(r"\w", after)
        if not amid and len(labelled := _labelled(found, labels)) >= len(values):
            values = labelled
    return values


def _labelled(found: dict[str, Any], labels: Labels) -> dict[str, str]:
    keys = {_key(key): value for key, value in found.items()}
    values = {}
    for label, spellings in labels.items():
        value = next((keys[_key(spelling)] for spelling in spellings if _key(spelling) in keys), None)
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if value is not None and text.strip():
            values[label] = text.strip()
    return values


def _objects(text: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield (start, end, object) of each JSON object, outer before inner, then of a Python dict."""
    decoder = json.JSONDecoder(strict=False, parse_constant=str)
    start = text.find("{")
    for _ in range(MAX_OBJECTS):
        if start < 0:
            break
        try:
            value, end = decoder.raw_decode(text, start)
            yield start, end, _plain(value)
        except (ValueError, RecursionError):
            pass
        start = text.find("{", start + 1)
    start, end = text.find("{"), text.rfind("}") + 1
    if start >= 0 and (value := _python_dict(text[start:end])) is not None:
        yield start, end, value


def _python_dict(source: str) -> dict[str, Any] | None:
    """Return a Python dict, which may have quotes, escapes and commas that JSON does not allow, or None."""
    tree = parsed(source)
    if tree is None or len(tree.body) != 1 or not isinstance(tree.body[0], ast.Expr):
        return None
    try:
        value = as_data(tree.body[0].value)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _plain(value: Any) -> Any:
    """Return `value` as decoded JSON: tuples become lists, keys become strings, and all of it can be stored.

    Values that a checkpoint or UTF-8 cannot hold are changed. Integers beyond 64 bits and infinities become text, which
    a tool's schema parses again. A lone surrogate becomes a question mark.
    """
    text = json.dumps(value, ensure_ascii=False, default=list)
    return json.loads(text.encode("utf-8", "replace"), parse_int=_integer, parse_constant=str)


def _integer(digits: str) -> int | str:
    return number if -(2**63) <= (number := int(digits)) < 2**63 else digits
