"""Questions of Atlas that ask for discovery: every step is known from the train split, and no order of them is.

The planner has seen each look-up and each calculation, as the steps of other questions. What it has never seen is a
calculation on facts that must first be found over another page, or a chain that begins with a fact. So a planner that
only repeats the plans of its own successes has nothing to begin with where it never succeeds.
"""

import random
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import islice

from agentflow.evals.atlas import families
from agentflow.evals.atlas.families import (
    Families,
    Problem,
    Step,
    born_first,
    days_after,
    look_up,
    operations,
    population,
    stream,
    years_between,
)
from agentflow.evals.atlas.world import RELATIONS, Split, World


def arithmetic(rng: random.Random, world: World, depth: int) -> Problem:
    """Generate a chain of 1 or 2 operations on the population of a city: a look-up and a calculation."""
    city = rng.choice(_plain(world, "city"))
    found = look_up(world, city, "population")
    words, last = operations(rng, int(found.value), depth)
    text = f"Start with the population of {city}, {words}. What is the result?"
    return _problem("fact arithmetic", text, "a number", found, last)


def dates(rng: random.Random, world: World, depth: int) -> Problem:
    """Generate a date some days after the birth of a person who must be found: two look-ups and a calculation."""
    named, person = _path(rng, world, "person")
    born = look_up(world, person.value, "birth date")
    days = rng.randint(5, 99)
    text = f"Which date is {days} days after the birth of {named}?"
    return _problem("dates of a hop", text, "a date", person, born, days_after(born, days))


def compare(rng: random.Random, world: World, depth: int) -> Problem:
    """Generate the question which of two people was born earlier or later, one of whom must be found first."""
    named, person = _path(rng, world, "person")
    other = _another(rng, world, "person", person.value)
    first, second = look_up(world, person.value, "birth date"), look_up(world, other, "birth date")
    when = rng.choice(("earlier", "later"))
    text = f"Who was born {when}, {named} or {other}?"
    last = born_first({person.value: first, other: second}, when)
    return _problem("compare of a hop", text, "a name", person, first, second, last)


def years(rng: random.Random, world: World, depth: int) -> Problem:
    """Generate a question for the years between the foundings of two firms, one of which must be found first."""
    named, firm = _path(rng, world, "firm")
    other = _another(rng, world, "firm", firm.value)
    first, second = (look_up(world, one, "founding year") for one in (firm.value, other))
    text = f"How many years lie between the founding of {named} and that of {other}?"
    return _problem("years of a hop", text, "a number", firm, first, second, years_between(first, second))


def aggregate(rng: random.Random, world: World, depth: int) -> Problem:
    """Generate a question for the population of two cities, one of which must be found first."""
    named, city = _path(rng, world, "city")
    other = _another(rng, world, "city", city.value)
    found = {one: look_up(world, one, "population") for one in (city.value, other)}
    word = rng.choice(("total", "largest", "smallest"))
    text = f"What is the {word} population of {named} and {other}?"
    return _problem("aggregate of a hop", text, "a number", city, *found.values(), population(word, found))


FAMILIES: Families = {
    "fact arithmetic": (arithmetic, {"train": (1, 2), "test": (1, 2)}),
    **{
        f"{make.__name__} of a hop": (make, {"train": (1,), "test": (1,)})
        for make in (dates, compare, years, aggregate)
    },
}
"""The families that ask for discovery."""


@lru_cache(maxsize=8)
def questions(split: Split, number: int, seed: int = 0) -> tuple[Problem, ...]:
    """Return the first `number` questions of a split, the families in turn; deterministic for a seed."""
    return tuple(islice(stream(split, seed, FAMILIES), number))


LEVELS: dict[str, Callable[..., Sequence[Problem]]] = {"atlas": families.questions, "discovery": questions}
"""Function that returns the first questions of a split, by level of Atlas; a third argument is the seed."""


def _problem(family: str, text: str, asked: str, *steps: Step) -> Problem:
    looked_up = len(steps) - 1
    takes = f"{looked_up} look-ups and a calculation" if looked_up > 1 else "a look-up and a calculation"
    return Problem(family, text, steps[-1].value, len(steps), asked, takes, steps)


def _plain(world: World, kind: str) -> list[str]:
    """Return the titles of a kind that are not of two meanings."""
    return [title for title in world.titles(kind) if "(" not in title]


def _another(rng: random.Random, world: World, kind: str, title: str) -> str:
    """Return the title of another page of a kind."""
    return rng.choice([one for one in _plain(world, kind) if one != title])


def _path(rng: random.Random, world: World, kind: str) -> tuple[str, Step]:
    """Return a description of a page of `kind` by one relation, "the mayor of X", and the step that finds it."""
    start, relation = rng.choice(
        [(start, name) for start, relations in RELATIONS.items() for name, end in relations.items() if end == kind]
    )
    title = rng.choice(_plain(world, start))
    return f"the {relation} of {title}", look_up(world, title, relation)
