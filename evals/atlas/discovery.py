"""Questions of Atlas that ask for discovery: every step is known from the train split, and no order of them is.

The planner has seen each look-up and each calculation, as the steps of other questions. What it has never seen is a
calculation on facts that must first be found over another page, or a chain that begins with a fact. So a planner that
only repeats the plans of its own successes has nothing to begin with where it never succeeds.
"""

import random
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from functools import lru_cache
from itertools import islice

from agentflow.evals.atlas import families
from agentflow.evals.atlas.families import Families, Problem, Step, compute, look_up, stream
from agentflow.evals.atlas.world import RELATIONS, Split, World


def arithmetic(rng: random.Random, world: World, depth: int) -> Problem:
    """Generate a chain of 1 or 2 operations on the population of a city: a look-up and a calculation."""
    city = rng.choice(_plain(world, "city"))
    found = look_up(world, city, "population")
    said, expression, value = [f"Start with the population of {city}"], found.value, int(found.value)
    for number in range(depth):
        operator, operand = rng.choice("+-*"), rng.randint(2, 40)
        said.append({"+": f"add {operand}", "-": f"subtract {operand}", "*": f"multiply by {operand}"}[operator])
        expression = f"{f'({expression})' if number else expression} {operator} {operand}"
        value = {"+": value + operand, "-": value - operand, "*": value * operand}[operator]
    last = compute(f"Compute {expression}", expression, f"print({expression})", str(value))
    text = f"{', '.join(said)}. What is the result?"
    return _problem("fact arithmetic", text, str(value), "a number", (found, last))


def dates(rng: random.Random, world: World, depth: int) -> Problem:
    """Generate a date some days after the birth of a person who must be found: two look-ups and a calculation."""
    named, person = _path(rng, world, "person")
    born = look_up(world, person.value, "birth date")
    days = rng.randint(5, 99)
    value = (date.fromisoformat(born.value) + timedelta(days=days)).isoformat()
    code = f'from datetime import date, timedelta\nprint(date.fromisoformat("{born.value}") + timedelta(days={days}))'
    last = compute(f"Compute the date {days} days after {born.value}", f"{born.value}, {days} days", code, value)
    text = f"Which date is {days} days after the birth of {named}?"
    return _problem("dates of a hop", text, value, "a date", (person, born, last))


def compare(rng: random.Random, world: World, depth: int) -> Problem:
    """Generate the question which of two people was born earlier or later, one of whom must be found first."""
    named, person = _path(rng, world, "person")
    other = rng.choice([one for one in _plain(world, "person") if one != person.value])
    first, second = look_up(world, person.value, "birth date"), look_up(world, other, "birth date")
    when, choose = rng.choice((("earlier", "min"), ("later", "max")))
    pairs = [(first.value, person.value), (second.value, other)]
    answer = (min(pairs) if choose == "min" else max(pairs))[1]
    code = f'print({choose}(("{first.value}", "{person.value}"), ("{second.value}", "{other}"))[1])'
    last = compute(
        f"Find out who was born {when}",
        f"{person.value} {first.value}, {other} {second.value}",
        code,
        answer,
        f"{answer} was born {when}.",
    )
    text = f"Who was born {when}, {named} or {other}?"
    return _problem("compare of a hop", text, answer, "a name", (person, first, second, last))


def years(rng: random.Random, world: World, depth: int) -> Problem:
    """Generate a question for the years between the foundings of two firms, one of which must be found first."""
    named, firm = _path(rng, world, "firm")
    other = rng.choice([one for one in _plain(world, "firm") if one != firm.value])
    first, second = (look_up(world, one, "founding year") for one in (firm.value, other))
    value = str(abs(int(first.value) - int(second.value)))
    code = f"print(abs({first.value} - {second.value}))"
    last = compute("Compute the years between", f"{first.value}, {second.value}", code, value)
    text = f"How many years lie between the founding of {named} and that of {other}?"
    return _problem("years of a hop", text, value, "a number", (firm, first, second, last))


def aggregate(rng: random.Random, world: World, depth: int) -> Problem:
    """Generate a question for the population of two cities, one of which must be found first."""
    named, city = _path(rng, world, "city")
    other = rng.choice([one for one in _plain(world, "city") if one != city.value])
    found = [look_up(world, one, "population") for one in (city.value, other)]
    word, function, of = rng.choice((("total", "sum", sum), ("largest", "max", max), ("smallest", "min", min)))
    value = str(of(int(step.value) for step in found))
    last = compute(
        f"Compute the {function} of the populations",
        f"{city.value} {found[0].value}, {other} {found[1].value}",
        f"print({function}([{found[0].value}, {found[1].value}]))",
        value,
    )
    text = f"What is the {word} population of {named} and {other}?"
    return _problem("aggregate of a hop", text, value, "a number", (city, *found, last))


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


LEVELS: dict[str, Callable[[Split, int], Sequence[Problem]]] = {"atlas": families.questions, "discovery": questions}
"""Function that returns the first questions of a split, by level of Atlas."""


def _problem(family: str, text: str, answer: str, asked: str, steps: tuple[Step, ...]) -> Problem:
    looked_up = len(steps) - 1
    takes = f"{looked_up} look-ups and a calculation" if looked_up > 1 else "a look-up and a calculation"
    return Problem(family, text, answer, len(steps), asked, takes, steps)


def _plain(world: World, kind: str) -> list[str]:
    """Return the titles of a kind that are not of two meanings."""
    return [title for title in world.titles(kind) if "(" not in title]


def _path(rng: random.Random, world: World, kind: str) -> tuple[str, Step]:
    """Return a description of a page of `kind` by one relation, "the mayor of X", and the step that finds it."""
    start, relation = rng.choice(
        [(start, name) for start, relations in RELATIONS.items() for name, end in relations.items() if end == kind]
    )
    title = rng.choice(_plain(world, start))
    return f"the {relation} of {title}", look_up(world, title, relation)
