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
from functools import lru_cache, partial
from typing import Any
from urllib.parse import quote

MARK = "***"

_SECRET_NAME = re.compile(r"KEYS?(?![A-Z])|TOKEN(?!I)|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
"""Not KEYRING and not TOKENIZERS_PARALLELISM."""

LONGEST = 2_000_000
"""Characters of a text that are searched, in a fifth of a second at worst; the rest is cut, not passed on unseen."""

_LONGEST_KEY = 10_000

_SHORTEST_SECRET = 8
"""Shorter values are placeholders ("EMPTY", "1"), which would be struck out of ordinary text."""


def _word(characters: str, shortest: int) -> str:
    """A word of at least so many characters, read once; its group is there if a digit is in it, as in every key."""
    return rf"(?=[{characters}]{{{shortest}}})(?:(?!\d)[{characters}])*+(\d[{characters}]*+)?"


_SHAPES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (found, re.compile(re.escape(found) + rest, re.DOTALL))
    for found, rest in (
        ("://", r"[^\s/:@\"'<>\\]*+:([^\s/@\"'<>\\]++)(?=@)"),
        ("earer ", r" *+" + _word(r"\w.~+/=-", 16)),
        ("Basic ", r" *+" + _word(r"\w+/=-", 16)),
        (
            "-",
            r"(?<=[kytabeprs]-)(?:(?<=(?<![\w-])sk-)|(?<=tvly-)|(?<=glpat-)|(?<=xox[abeprs]-))" + _word(r"\w-", 16),
        ),
        (
            "_",
            r"(?<=[pousrt2ef]_)(?:(?<=gh[pousr]_)|(?<=github_pat_)|(?<=lsv2_)|(?<=[sr]k_live_)|(?<=\bhf_))"
            + _word(r"\w", 16),
        ),
        (
            "=",
            r"(?<=[yntd]=)(?:(?<=\bapi[_-]key=)|(?<=\bapikey=)|(?<=\baccess_token=)|(?<=\bclient_secret=)"
            r"|(?<=\bpassword=))" + _word(r"\w.~+/%=-", 8),
        ),
        ("IA", r"(?<=A[KS]IA)([0-9A-Z]{16})(?!\w)"),
        ("AIza", r"([\w-]{35})(?![\w-])"),
        ("eyJ", r"[\w-]{10,}+(\.eyJ[\w-]{10,}+\.[\w-]{10,}+)?"),
        ("PRIVATE KEY-----", r"(.*?)(?:-----END [A-Z ]*+(?<=PRIVATE KEY)-----|\Z)"),
    )
)
"""What stays of a secret, and the pattern that begins with it. What names its kind stands before, and stays too.

A match is a secret if its group is there. Where it is not, the word that was no key has been read all the same, and no
search begins inside it again: so each pattern takes time linear in the text, whatever the text repeats. That a pattern
begins with letters to be found is what makes it fast.
"""


_remembered: set[str] = set()


def remember(secret: str) -> None:
    """From now on `secret` is struck out too: a key that came from elsewhere than the environment, or may leave it."""
    if len(secret.strip()) >= _SHORTEST_SECRET:
        _remembered.add(secret.strip())


def redacted(text: str) -> str:
    """`text` without known secrets and without whatever looks like a key; what exceeds LONGEST ends in a mark."""
    return _redacted(text, _forms(_known()))


def cut(text: str, characters: int, mark: str = "…") -> str:
    """`text` in at most so many characters, the last of them `mark` where it was longer.

    It is redacted before it is cut: half of a key is no key that could be recognised later.
    """
    if len(text) > characters:
        text = redacted(text)
    return text if len(text) <= characters else text[: characters - len(mark)] + mark


def ending(text: str, characters: int) -> str:
    """The last so many characters of `text`, which is redacted if that leaves any out."""
    return text if len(text) <= characters else redacted(text)[-characters:]


def without_known(text: str) -> str:
    """`text` without known secrets. Reads the environment, which may have changed."""
    return _without_forms(text, _forms(_known()))


def redacted_data(data: Any) -> Any:
    """Data as JSON has it, with every string in it `redacted`, also those that are keys."""
    return _walked(data, _forms(_known()))


def _walked(data: Any, forms: tuple[str, ...]) -> Any:
    if isinstance(data, str):
        return _redacted(data, forms)
    if isinstance(data, Mapping):
        return {_walked(key, forms): _walked(value, forms) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_walked(value, forms) for value in data]
    return data


def _redacted(text: str, forms: tuple[str, ...]) -> str:
    if len(text) <= LONGEST:
        return _without_shapes(_without_forms(text, forms))
    # The end of the window may be the first half of a key.
    return f"{_without_shapes(_without_forms(text[:LONGEST], forms))[:-_LONGEST_KEY]} [... the rest is cut ...]"


def _without_forms(text: str, forms: tuple[str, ...]) -> str:
    for form in forms:
        if form in text:
            text = text.replace(form, MARK)
    return text


def _without_shapes(text: str) -> str:
    for found, pattern in _SHAPES:
        if found in text:
            text = pattern.sub(partial(_struck, found), text)
    return text


def _struck(found: str, match: re.Match[str]) -> str:
    return found + MARK if match.lastindex else match.group()


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
