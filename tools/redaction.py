"""Secrets struck out of text, before it leaves the process: into files, logs, traces, reports or the terminal.

Two kinds are told apart. *Known* secrets are the values of environment variables with a telling name, and what
`remember` was given; they are struck out whatever they look like, also as JSON and URLs write them. *Shapes* are what
the keys of well-known services look like, for those that come from elsewhere: a tool's output, a server's error.

Ordinary text stays as it is: every shape has a fixed beginning, and asks for a length and a digit that prose has not.
"""

import json
import os
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote

MARK = "***"

_SECRET_NAME = re.compile(r"KEYS?(?![A-Z])|TOKEN(?!I)|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
"""Not KEYRING and not TOKENIZERS_PARALLELISM."""

_SHORTEST_SECRET = 8
"""Shorter values are placeholders ("EMPTY", "1"), which would be struck out of ordinary text."""

_DIGIT = r"(?=[\w.~+/=-]*\d)"
"""Further on in the word is a digit, as in every key and hardly ever in prose."""

_SHAPES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (found, re.compile(re.escape(found) + rest, re.DOTALL))
    for found, rest in (
        ("://", r"[^\s/:@\"'<>\\]*:[^\s/@\"'<>\\]+(?=@)"),
        ("earer ", rf" *{_DIGIT}[\w.~+/=-]{{16,}}"),
        ("Basic ", rf" *{_DIGIT}[\w+/-]{{16,}}=*"),
        ("-", rf"(?=[\w-]{{16}})(?:(?<=(?<![\w-])sk-)|(?<=tvly-)|(?<=glpat-)|(?<=xox[abeprs]-)){_DIGIT}[\w-]{{16,}}"),
        (
            "_",
            rf"(?=\w{{16}})(?:(?<=gh[pousr]_)|(?<=github_pat_)|(?<=lsv2_)|(?<=[sr]k_live_)|(?<=\bhf_)){_DIGIT}\w{{16,}}",
        ),
        (
            "=",
            r"(?=[\w.~+/%-]{8})(?:(?<=\bapi[_-]key=)|(?<=\bapikey=)|(?<=\baccess_token=)|(?<=\bclient_secret=)|(?<=\bpassword=))"
            rf"{_DIGIT}[\w.~+/%-]{{8,}}",
        ),
        ("IA", r"(?<=A[KS]IA)[0-9A-Z]{16}(?!\w)"),
        ("AIza", r"[\w-]{35}(?![\w-])"),
        ("eyJ", r"[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}"),
        ("PRIVATE KEY-----", r".*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"),
    )
)
"""What stays of a secret, and the pattern that begins with it. What names its kind stands before, and stays too.

That a pattern begins with letters to be found is what makes it fast; it looks behind only where enough may follow.
"""


_remembered: set[str] = set()


def remember(secret: str) -> None:
    """From now on `secret` is struck out too: a key that came from elsewhere than the environment, or may leave it."""
    if len(secret.strip()) >= _SHORTEST_SECRET:
        _remembered.add(secret.strip())


def redacted(text: str) -> str:
    """`text` without known secrets and without whatever looks like a key."""
    return _without_shapes(without_known(text))


def without_known(text: str) -> str:
    """`text` without known secrets. Reads the environment, which may have changed."""
    for form in _forms(_known()):
        if form in text:
            text = text.replace(form, MARK)
    return text


def redacted_data(data: Any) -> Any:
    """Data as JSON has it, with every string in it `redacted`, also those that are keys."""
    return _walked(data, _forms(_known()))


def _walked(data: Any, forms: tuple[str, ...]) -> Any:
    if isinstance(data, str):
        for form in forms:
            if form in data:
                data = data.replace(form, MARK)
        return _without_shapes(data)
    if isinstance(data, Mapping):
        return {_walked(key, forms): _walked(value, forms) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_walked(value, forms) for value in data]
    return data


def _without_shapes(text: str) -> str:
    for found, pattern in _SHAPES:
        if found in text:
            text = pattern.sub(found + MARK, text)
    return text


def _known() -> frozenset[str]:
    values = (value.strip() for name, value in os.environ.items() if _is_telling(name))
    return frozenset(_remembered.union(value for value in values if len(value) >= _SHORTEST_SECRET))


@lru_cache(maxsize=1024)
def _is_telling(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None


@lru_cache(maxsize=8)
def _forms(secrets: frozenset[str]) -> tuple[str, ...]:
    """The secrets as they may be written, the longest first: one key may be part of another."""
    forms = {
        form
        for secret in secrets
        for form in (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], quote(secret, ""))
    }
    return tuple(sorted(forms, key=len, reverse=True))
