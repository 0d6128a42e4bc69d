"""Redaction of secrets in text that leaves the process for files, logs, traces, reports or the terminal.

There are three kinds. *Known* secrets are the values of environment variables whose name suggests a secret, and those
passed to `remember`. They are redacted whatever their form, also as JSON and URLs encode them. *Shapes* match the keys
of well-known services, for secrets from other sources: a tool's output, a server's error. *Named* ones are the values
of names such as `api_key`, in JSON, .env files, headers, URLs and programs.

Ordinary text stays as it is: every shape has a fixed beginning and requires a length and a digit that prose lacks.
"""

import json
import os
import re
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any
from urllib.parse import quote

MARK = "***"

_SECRET_NAME = re.compile(r"KEYS?(?![A-Z])|TOKEN(?!I)|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
"""Excludes KEYRING and TOKENIZERS_PARALLELISM."""

LONGEST = 2_000_000
"""Maximum number of characters that are searched, which takes at most a second. The rest is cut instead of
passed on unchecked.
"""

MESSAGE = 20_000
"""Maximum number of characters of a message that are searched, which takes a few milliseconds."""

_LONGEST_KEY = 10_000

_SHORTEST_SECRET = 8
"""Shorter values are placeholders ("EMPTY", "1"), which also occur in ordinary text."""


def _word(characters: str, shortest: int) -> str:
    """Return a pattern for a word of at least `shortest` characters.

    The word is read only once. The pattern's group matches if the word has a digit, as every key does.
    """
    return rf"(?=[{characters}]{{{shortest}}})(?:(?!\d)[{characters}])*+(\d[{characters}]*+)?"


_SHAPES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (found, re.compile(re.escape(found) + rest, re.DOTALL))
    for found, rest in (
        ("://", r"[^\s/:@\"'<>\\]*+:([^\s/@\"'<>\\]++)(?=@)"),
        ("earer ", r" *+" + _word(r"\w.~+/=-", 16)),
        ("Basic ", r" *+" + _word(r"\w+/=-", 16)),
        (
            "-",
            r"(?<=[kytabeprsiX]-)(?:(?<=(?<![\w-])sk-)|(?<=tvly-)|(?<=glpat-)|(?<=xox[abeprs]-)|(?<=\bxai-)|(?<=nvapi-)"
            r"|(?<=pypi-)|(?<=GOCSPX-))" + _word(r"\w-", 16),
        ),
        (
            "_",
            r"(?<=[pousrt2efmk81]_)(?:(?<=gh[pousr]_)|(?<=github_pat_)|(?<=lsv2_)|(?<=[sr]k_live_)|(?<=\bhf_)"
            r"|(?<=\bnpm_)|(?<=\bgsk_)|(?<=\br8_)|(?<=\bdop_v1_))" + _word(r"\w", 16),
        ),
        ("SG.", _word(r"\w.-", 32)),
        ("ya29.", _word(r"\w-", 16)),
        ("dapi", r"([0-9a-f]{32})(?!\w)"),
        ("hooks.slack.com/services/", _word(r"\w/", 16)),
        ("IA", r"(?<=A[KS]IA)([0-9A-Z]{16})(?!\w)"),
        ("AIza", r"([\w-]{35})(?![\w-])"),
        ("eyJ", r"[\w-]{10,}+(\.eyJ[\w-]{10,}+\.[\w-]{10,}+)?"),
        ("PRIVATE KEY-----", r"(.*?)(?:-----END [A-Z ]*+(?<=PRIVATE KEY)-----|\Z)"),
    )
)
"""The part of a secret that remains, and the pattern that follows it. The preceding name of its kind remains too.

A match is a secret if its group matched. Otherwise the word is consumed as well, so no search starts inside it again.
Each pattern therefore takes linear time, whatever the text repeats. A literal beginning makes the search fast.
"""

_NAME = re.compile(
    r"(?:(?:api|access|secret|private|account|auth|encryption|service|master|signing)[_-]?key|token|credentials?"
    r"|authorization|(?-i:[A-Z0-9]_KEY)|(?P<any>secret|passphrase|passw(?:or)?d|pwd))(?:\\*[\"'])?\]? ?\Z",
    re.IGNORECASE,
)
_LONGEST_NAME = 24
_DIGIT, _WORD = re.compile(r"\d"), re.compile(r"\S{8,}")

_VALUE = re.compile(
    r"(?<=[\w\"'\] ])(?P<sign>[:=][ \t]?)"
    r"(?=\\*[\"'](?P<quoted>[^\s\"'\\]{8,}+)|(?P<bare>[\w.~+/%!$-]{8,}+=*+))"
)
"""What follows a name in JSON, .env files, headers, URLs and programs. It is only looked at: it may hold more."""

_remembered: set[str] = set()


def remember(secret: str) -> None:
    """Also redact `secret` from now on: a key that is not in the environment, or may be removed from it."""
    if len(secret.strip()) >= _SHORTEST_SECRET:
        _remembered.add(secret.strip())


def redacted(text: str, longest: int | None = None) -> str:
    """Return `text` without known secrets and without texts that look like keys. Text beyond `longest` or LONGEST is
    replaced by a mark.

    `longest` exceeds the longest key, since a key at the end of what is searched could not be recognised.
    """
    return _redacted(text, _forms(_known()), longest or LONGEST)


def cut(text: str, characters: int, mark: str = "…") -> str:
    """Return at most so many characters of `text`, and end in `mark` if it was longer.

    The text is redacted before it is cut, since half of a key could not be recognised later.
    """
    if len(text) > characters:
        text = redacted(text)
    return text if len(text) <= characters else text[: characters - len(mark)] + mark


def ending(text: str, characters: int) -> str:
    """Return the last so many characters of `text`, which is redacted if it is cut."""
    return text if len(text) <= characters else redacted(text)[-characters:]


def without_known(text: str) -> str:
    """Return `text` without known secrets. Reads the environment, which may have changed."""
    return _without_forms(text, _forms(_known()))


def redacted_data(data: Any) -> Any:
    """Return JSON data with every string in it redacted, including keys of objects."""
    return _walked(data, _forms(_known()))


def _walked(data: Any, forms: tuple[str, ...]) -> Any:
    if isinstance(data, str):
        return _redacted(data, forms, LONGEST)
    if isinstance(data, Mapping):
        return {_walked(key, forms): _named(key, value) or _walked(value, forms) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_walked(value, forms) for value in data]
    return data


def _named(key: Any, value: Any) -> str | None:
    """Return the mark if the value of a key of JSON is a secret by its name."""
    name = _NAME.search(f'{key}"') if isinstance(value, str) and _WORD.fullmatch(value) else None
    return MARK if name and _is_secret(name, value, quoted=True) else None


def _redacted(text: str, forms: tuple[str, ...], longest: int) -> str:
    if len(text) <= longest:
        return _without_shapes(_without_forms(text, forms))
    # The window may end within a key.
    return f"{_without_shapes(_without_forms(text[:longest], forms))[:-_LONGEST_KEY]} [... the rest is cut ...]"


def _without_forms(text: str, forms: tuple[str, ...]) -> str:
    for form in forms:
        if form in text:
            text = text.replace(form, MARK)
    return text


def _without_shapes(text: str) -> str:
    for found, pattern in _SHAPES:
        if found in text:
            text = pattern.sub(partial(_struck, found), text)
    kept: list[str] = []
    end = 0
    for match in _VALUE.finditer(text):
        form = "quoted" if match["quoted"] else "bare"
        name = _NAME.search(text, max(0, match.start() - _LONGEST_NAME), match.start())
        # An assignment of .env, whose value may have no digit.
        assigned = name and match["sign"] == "=" and name[0].isupper()
        if name and (assigned or _is_secret(name, match[form], quoted=form == "quoted")):
            kept += text[end : match.start(form)], MARK
            end = match.end(form)
    return "".join(kept) + text[end:]


def _is_secret(name: re.Match[str], value: str, *, quoted: bool) -> bool:
    """Return whether the value of a telling name is a secret. In prose, only a digit tells one from a word."""
    return bool(_DIGIT.search(value) or (quoted and name["any"]))


def _struck(found: str, match: re.Match[str]) -> str:
    return found + MARK if match.lastindex else match.group()


def _known() -> frozenset[str]:
    values = (os.environ.get(name, "").strip() for name in os.environ if _is_telling(name))
    return frozenset(_remembered.union(value for value in values if len(value) >= _SHORTEST_SECRET))


@lru_cache(maxsize=1024)
def _is_telling(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None


@lru_cache(maxsize=8)
def _forms(secrets: frozenset[str]) -> tuple[str, ...]:
    """Return the secrets in every encoding, the longest first since one key may be part of another."""
    forms = {
        form
        for secret in secrets
        for form in (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], quote(secret, ""))
    }
    return tuple(sorted(forms, key=len, reverse=True))
