"""The invented encyclopedia: countries, cities, people, firms and books with a page each, and disambiguation pages.

Worlds of the train and the test split share no name, because the hash of a name decides its split.
"""

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import lru_cache
from typing import Literal

Split = Literal["train", "test"]
WORLDS: dict[Split, int] = {"train": 60, "test": 12}

RELATIONS: dict[str, dict[str, str]] = {
    "country": {"capital": "city", "leader": "person"},
    "city": {"country": "country", "mayor": "person"},
    "person": {"birthplace": "city", "mother": "person", "employer": "firm"},
    "firm": {"founder": "person", "base": "city"},
    "book": {"author": "person"},
}
"""Kind -> relation -> kind of the page that the relation leads to."""

_COUNTS = {"country": 6, "city": 16, "person": 40, "firm": 16, "book": 14}
_CONSONANTS, _VOWELS = "bdfgklmnprstvz", "aeiou"


def split_of(text: str) -> Split:
    """Return the split of a name or a question, by its hash: one in five is test."""
    return "test" if int(hashlib.sha256(text.encode()).hexdigest(), 16) % 5 == 0 else "train"


@dataclass(frozen=True)
class AtlasPage:
    """One article. `facts` are in the order in which the text states them."""

    title: str
    kind: str
    facts: dict[str, str]

    @property
    def text(self) -> str:
        """Return the text of the article, without its title."""
        if self.kind == "ambiguous":
            return f"May mean {' or '.join(self.facts.values())}."
        facts = ", ".join(f"{relation} {value}" for relation, value in self.facts.items())
        return f"{self.kind.capitalize()} with {facts}."


@dataclass
class World:
    """A closed set of pages: every name that a page mentions has a page in the same world."""

    pages: dict[str, AtlasPage] = field(default_factory=dict)

    def titles(self, kind: str) -> list[str]:
        """Return the titles of all pages of a kind."""
        return [page.title for page in self.pages.values() if page.kind == kind]


@lru_cache(maxsize=2)
def worlds(split: Split) -> tuple[World, ...]:
    """Return all worlds of a split. They are deterministic."""
    used: set[str] = set()
    return tuple(_world(random.Random(f"atlas {split} {number}"), split, used) for number in range(WORLDS[split]))


def pages(split: Split) -> Iterator[AtlasPage]:
    """Yield the encyclopedia of a split: the pages of all its worlds."""
    for world in worlds(split):
        yield from world.pages.values()


def _world(rng: random.Random, split: Split, used: set[str]) -> World:
    def names(kind: str) -> list[str]:
        return [_title(kind, _fresh_name(rng, split, used)) for _ in range(_COUNTS[kind])]

    titles = {kind: names(kind) for kind in _COUNTS}
    ambiguous = [_fresh_name(rng, split, used) for _ in range(8)]
    for name in ambiguous:
        for kind in ("city", "firm"):
            titles[kind].append(f"{name} ({kind})")
    world = World()
    for kind, all_of_kind in titles.items():
        for title in all_of_kind:
            world.pages[title] = AtlasPage(title, kind, _facts(rng, kind, titles))
    for name in ambiguous:
        world.pages[name] = AtlasPage(name, "ambiguous", {kind: f"{name} ({kind})" for kind in ("city", "firm")})
    return world


def _title(kind: str, name: str) -> str:
    return {"firm": f"{name} Works", "book": f"Song of {name}"}.get(kind, name)


def _fresh_name(rng: random.Random, split: Split, used: set[str]) -> str:
    while True:
        syllables = [rng.choice(_CONSONANTS) + rng.choice(_VOWELS) for _ in range(rng.choice((2, 2, 3)))]
        name = ("".join(syllables) + rng.choice(_CONSONANTS)).capitalize()
        if name not in used and split_of(name) == split:
            used.add(name)
            return name


def _facts(rng: random.Random, kind: str, titles: dict[str, list[str]]) -> dict[str, str]:
    facts: dict[str, str] = {}
    if kind == "person":
        facts["birth date"] = (date(1900, 1, 1) + timedelta(days=rng.randrange(36000))).isoformat()
    if kind == "city":
        facts["population"] = str(rng.randint(100, 999))
    if kind == "firm":
        facts["founding year"] = str(rng.randint(1800, 1999))
    if kind == "book":
        facts["publication year"] = str(rng.randint(1850, 1999))
    for relation, target in RELATIONS[kind].items():
        plain = [title for title in titles[target] if "(" not in title]
        facts[relation] = rng.choice(plain)
    return facts
