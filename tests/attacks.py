"""Attack texts for a regular expression, built from its own characters."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice, product
from re import _compiler as compiler  # type: ignore[attr-defined]
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

_CHARACTERS = (codes.LITERAL, codes.RANGE)
_PROBES = "a0 -_.A<>\n\t,:/=+*#(){}[]|\"'`\\!?@%&$~^;é一\u00a0\x1b\x00Z"


@dataclass(frozen=True)
class Attack:
    """A text of any size: each unit repeated, one unit after another."""

    units: tuple[str, ...]
    before: str = ""
    after: str = ""

    def text(self, size: int) -> str:
        """Return a text of about `size` characters, in whole units, so that every size ends alike."""
        each = size // len(self.units)
        return self.before + "".join(unit * (each // len(unit) + 1) for unit in self.units) + self.after


def attacks(pattern: re.Pattern[str]) -> Iterator[Attack]:
    """Yield attacks on an expression that repeat its prefixes and the pieces it repeats."""
    beginnings, pieces = ends(pattern)
    for unit in dict.fromkeys([*beginnings, *pieces]):
        yield from (Attack((unit,)), Attack((unit,), after="\x00"), Attack((f"{unit}\n",)))
    for beginning, piece in islice(product(beginnings, pieces), 300):
        yield Attack((piece,), before=beginning, after="\x00")
    for one, other in islice(product(pieces, pieces), 200):
        yield from (Attack((one, other), after="\x00"), Attack((one + other,)))


def ends(pattern: re.Pattern[str]) -> tuple[list[str], list[str]]:
    """Return prefixes of a match, and pieces that may repeat in it."""
    tree = parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
    beginnings = [text for text in dict.fromkeys(_beginnings(tree)) if text]
    pieces = [text for text in dict.fromkeys(_pieces(tree)) if text]
    return beginnings[:40], pieces[:24]


def _beginnings(items: Iterable[Any]) -> Iterator[str]:
    """Yield examples of the first item, the first two items, and so on, also inside groups."""
    so_far = [""]
    for operation, argument in items:
        for inner in _inside(operation, argument):
            yield from (before + text for before in so_far[:2] for text in _beginnings(inner))
        examples = list(islice(_examples(operation, argument), 4)) or [""]
        so_far = [before + example for before in so_far for example in examples][:4]
        yield from so_far


def _pieces(items: Iterable[Any]) -> Iterator[str]:
    """Yield single characters of classes, and examples of repeated items."""
    for operation, argument in items:
        if operation in (codes.IN, codes.ANY, codes.NOT_LITERAL, codes.LITERAL):
            yield from islice(_examples(operation, argument), 4)
        for inner in _inside(operation, argument):
            yield "".join(next(_examples(*item), "") for item in inner)
            yield from _pieces(inner)


def _inside(operation: Any, argument: Any) -> list[Any]:
    match operation:
        case codes.BRANCH:
            return list(argument[1])
        case codes.SUBPATTERN:
            return [argument[3]]
        case codes.MAX_REPEAT | codes.MIN_REPEAT | codes.POSSESSIVE_REPEAT:
            return [argument[2]]
        case codes.ASSERT | codes.ASSERT_NOT:
            return [argument[1]]
        case codes.ATOMIC_GROUP:
            return [argument]
    return []


def _examples(operation: Any, argument: Any) -> Iterator[str]:
    """Yield a few texts that the item matches."""
    match operation:
        case codes.LITERAL:
            yield chr(argument)
        case codes.IN | codes.ANY | codes.NOT_LITERAL:
            yield from _members(operation, tuple(argument) if isinstance(argument, list) else argument)
        case codes.MAX_REPEAT | codes.MIN_REPEAT | codes.POSSESSIVE_REPEAT:
            least, _, inner = argument
            for text in islice(_sequence(inner), 3):
                yield text * max(1, least)
        case codes.BRANCH | codes.SUBPATTERN | codes.ATOMIC_GROUP | codes.ASSERT:
            for inner in _inside(operation, argument):
                yield from islice(_sequence(inner), 3)
        case _:
            yield ""


def _sequence(items: Iterable[Any]) -> Iterator[str]:
    for texts_ in islice(product(*(list(islice(_examples(*item), 3)) or [""] for item in items)), 3):
        yield "".join(texts_)


@cache
def _members(operation: Any, argument: Any) -> tuple[str, ...]:
    """Return the characters that a class matches, from its own members and the probes."""
    listed = argument if isinstance(argument, tuple) else ()
    own = [chr(value if kind is codes.LITERAL else value[0]) for kind, value in listed if kind in _CHARACTERS]
    state = parser.State()
    state.flags = re.UNICODE
    matches = compiler.compile(parser.SubPattern(state, [(operation, argument)])).match
    return tuple(probe for probe in dict.fromkeys([*own[:2], *_PROBES]) if matches(probe))
