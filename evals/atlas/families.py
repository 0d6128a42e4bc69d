"""The question families of Atlas. Each generates a question, its solution step by step, and the data for scoring.

A family is a function of a random generator, a world and a depth; `questions` takes the families in turn. In the
families of variable length, the highest train depth is one below the highest test depth, so that the test needs longer
chains than training.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from itertools import count, islice
from typing import Any

from agentflow.evals.atlas.arithmetic import first_expression, search_program
from agentflow.evals.atlas.world import RELATIONS, Split, World, split_of, worlds


@dataclass(frozen=True)
class Step:
    """One turn of the solution."""

    sub_goal: str
    tool: str
    context: str
    arguments: dict[str, Any]
    output: str
    """Output of the tool for `arguments`."""
    finding: str
    """Conclusion from the output, in the verifier's words."""
    value: str
    """The fact or number itself."""
    kind: str = ""
    """Kind of the value of a look-up: the kind of a page, "number" or "date"."""


@dataclass(frozen=True)
class Problem:
    """A generated question with its solution. `answer` is one correct answer; `evals.scorers.exact` scores answers."""

    family: str
    question: str
    answer: str
    depth: int
    """Length or difficulty: for example the operations of a chain or the number of hops."""
    asked: str
    """Kind of answer, as in the analyst's reply."""
    takes: str
    """Operations that are needed, as in the analyst's reply."""
    steps: tuple[Step, ...]
    numbers: tuple[int, ...] = ()
    """Numbers to use in Game of 24 and countdown, where any expression of them that makes `target` is correct."""
    target: int = 0


def look_up(world: World, title: str, relation: str) -> Step:
    """Return the step that looks up one fact on one page."""
    page = world.pages[title]
    value = page.facts[relation]
    kinds = {"birth date": "date", "population": "number", "founding year": "number", "publication year": "number"}
    return Step(
        sub_goal=f"Find the {relation} of {title}",
        tool="wikipedia_search",
        context=title,
        arguments={"query": title},
        output=f"{title}: {page.text}",
        finding=f"{title} has {relation} {value}.",
        value=value,
        kind=kinds.get(relation) or RELATIONS[page.kind][relation],
    )


def compute(sub_goal: str, context: str, code: str, value: str, finding: str = "") -> Step:
    """Return the step that runs a program which prints `value`."""
    return Step(sub_goal, "python_coder", context, {"code": code}, value, finding or f"The result is {value}.", value)


def request(sub_goal: str, context: str) -> str:
    """Return the query of a base_generator step."""
    return f"{sub_goal}. {context}"


def arithmetic(rng: random.Random, world: World, depth: int) -> Problem:
    """Generate a chain of 1-4 operations in words."""
    start = rng.randint(2, 40)
    words, step = operations(rng, start, depth)
    text = f"Start with {start}, {words}. What is the result?"
    return Problem("arithmetic", text, step.value, depth, "a number", "a calculation", (step,))


def operations(rng: random.Random, value: int, number: int) -> tuple[str, Step]:
    """Draw so many operations on `value`. Return them in words, and the step that computes the result."""
    expression, words = str(value), []
    for drawn in range(number):
        operator, operand = rng.choice("+-*"), rng.randint(2, 40)
        words.append({"+": f"add {operand}", "-": f"subtract {operand}", "*": f"multiply by {operand}"}[operator])
        expression = f"{f'({expression})' if drawn else expression} {operator} {operand}"
        value = {"+": value + operand, "-": value - operand, "*": value * operand}[operator]
    return ", ".join(words), compute(f"Compute {expression}", expression, f"print({expression})", str(value))


def hops(rng: random.Random, world: World, depth: int) -> Problem:
    """Generate a chain of 1-4 look-ups, each on the page that the previous one found."""
    while True:
        kind = rng.choice(list(RELATIONS))
        title = rng.choice([title for title in world.titles(kind) if "(" not in title])
        steps: list[Step] = []
        relations: list[str] = []
        current = title
        for _ in range(depth):
            free = [relation for relation in RELATIONS[kind] if relation not in relations]
            if not free:
                break
            relation = rng.choice(free)
            steps.append(look_up(world, current, relation))
            relations.append(relation)
            current, kind = steps[-1].value, RELATIONS[kind][relation]
        if len(steps) == depth:
            break
    path = " of the ".join(reversed(relations))
    wording = rng.choice(("What is the {path} of {title}?", "Name the {path} of {title}."))
    takes = "one look-up" if depth == 1 else f"{depth} look-ups, each from the one before"
    family = "look-up" if depth == 1 else "hops"
    text = wording.format(path=path, title=title)
    return Problem(family, text, steps[-1].value, depth, "a name", takes, tuple(steps))


def compare(rng: random.Random, world: World, depth: int) -> Problem:
    """Generate the question which of two people was born earlier or later: two look-ups and a comparison of dates."""
    one, other = rng.sample(world.titles("person"), 2)
    first, second = look_up(world, one, "birth date"), look_up(world, other, "birth date")
    if first.value == second.value:
        return compare(rng, world, depth)
    when = rng.choice(("earlier", "later"))
    last = born_first({one: first, other: second}, when)
    text = f"Who was born {when}, {one} or {other}?"
    takes = "two look-ups and a comparison"
    return Problem("compare", text, last.value, depth, "a name", takes, (first, second, last))


def born_first(births: Mapping[str, Step], when: str) -> Step:
    """Return the step that finds out who of two people was born earlier or later, from the look-ups of their births."""
    choose, of = {"earlier": ("min", min), "later": ("max", max)}[when]
    (one, first), (other, second) = births.items()
    answer = of((first.value, one), (second.value, other))[1]
    code = f'print({choose}(("{first.value}", "{one}"), ("{second.value}", "{other}"))[1])'
    facts = f"{one} {first.value}, {other} {second.value}"
    return compute(f"Find out who was born {when}", facts, code, answer, f"{answer} was born {when}.")


def years(rng: random.Random, world: World, depth: int) -> Problem:
    """Generate a question for the years between two foundings or publications: two look-ups and a calculation."""
    kind, relation, noun = rng.choice(
        (("firm", "founding year", "founding"), ("book", "publication year", "publication"))
    )
    one, other = rng.sample([title for title in world.titles(kind) if "(" not in title], 2)
    first, second = look_up(world, one, relation), look_up(world, other, relation)
    last = years_between(first, second)
    text = f"How many years lie between the {noun} of {one} and that of {other}?"
    takes = "two look-ups and a calculation"
    return Problem("years", text, last.value, depth, "a number", takes, (first, second, last))


def years_between(first: Step, second: Step) -> Step:
    """Return the step that computes the years between two that were looked up."""
    value = str(abs(int(first.value) - int(second.value)))
    code = f"print(abs({first.value} - {second.value}))"
    return compute("Compute the years between", f"{first.value}, {second.value}", code, value)


UNITS = {
    ("mile", "yard"): 1760,
    ("mile", "foot"): 5280,
    ("yard", "foot"): 3,
    ("yard", "inch"): 36,
    ("foot", "inch"): 12,
    ("week", "day"): 7,
    ("week", "hour"): 168,
    ("day", "hour"): 24,
    ("day", "minute"): 1440,
    ("hour", "minute"): 60,
    ("hour", "second"): 3600,
    ("minute", "second"): 60,
}
"""(larger unit, smaller unit) -> number of the smaller in one of the larger."""
PLURAL = {"foot": "feet", "inch": "inches"}


def units(rng: random.Random, world: World, depth: int) -> Problem:
    """Generate a unit conversion whose factor must be known. A greater depth has a larger amount."""
    (larger, smaller), factor = rng.choice(list(UNITS.items()))
    amount = rng.randint(2, 9) if depth == 1 else rng.randint(10, 99)
    plural, smaller_plural = (PLURAL.get(unit, f"{unit}s") for unit in (larger, smaller))
    value = str(amount * factor)
    sub_goal = f"Convert {amount} {plural} to {smaller_plural}"
    step = compute(sub_goal, f"1 {larger} is {factor} {smaller_plural}", f"print({amount} * {factor})", value)
    text = f"How many {smaller_plural} are {amount} {plural}?"
    return Problem("units", text, value, depth, "a number", "a conversion", (step,))


def dates(rng: random.Random, world: World, depth: int) -> Problem:
    """Generate a look-up and a date calculation."""
    person = rng.choice(world.titles("person"))
    born = look_up(world, person, "birth date")
    days = rng.randint(5, 99) if depth == 1 else rng.randint(100, 400)
    last = days_after(born, days)
    text = f"Which date is {days} days after the birth of {person}?"
    return Problem("dates", text, last.value, depth, "a date", "a look-up and a calculation", (born, last))


def days_after(born: Step, days: int) -> Step:
    """Return the step that computes the date some days after a birth that was looked up."""
    value = (date.fromisoformat(born.value) + timedelta(days=days)).isoformat()
    code = f'from datetime import date, timedelta\nprint(date.fromisoformat("{born.value}") + timedelta(days={days}))'
    return compute(f"Compute the date {days} days after {born.value}", f"{born.value}, {days} days", code, value)


def _expression(rng: random.Random, family: str, highest: int, target: int) -> Problem:
    numbers = tuple(sorted(rng.randint(1, highest) for _ in range(4)))
    found = first_expression(numbers, target)
    if found is None:
        return _expression(rng, family, highest, target)
    listed = f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"
    step = compute(
        f"Find an expression of {listed} that makes {target}",
        f"{', '.join(map(str, numbers))}; {target}",
        search_program(numbers, target),
        found,
        f"{found} makes {target}.",
    )
    text = f"Use {listed} once each with + - * / to make {target}."
    return Problem(family, text, found, 1, "an expression", "a search", (step,), numbers, target)


def game24(rng: random.Random, world: World, depth: int) -> Problem:
    """Generate a Game of 24: make 24 from four numbers of 1-13, each used once."""
    return _expression(rng, "game of 24", 13, 24)


def countdown(rng: random.Random, world: World, depth: int) -> Problem:
    """Generate a puzzle like Game of 24, with numbers of 1-10 and a target of 10-59 other than 24."""
    return _expression(rng, "countdown", 10, rng.choice([n for n in range(10, 60) if n != 24]))


def disambiguation(rng: random.Random, world: World, depth: int) -> Problem:
    """Generate a question on one of two pages with the same name, a city and a firm."""
    name = rng.choice(world.titles("ambiguous"))
    kind, relation = rng.choice((("city", "country"), ("city", "mayor"), ("firm", "founder"), ("firm", "base")))
    page = world.pages[name]
    meaning = page.facts[kind]
    first = Step(
        f"Find the {kind} called {name}",
        "wikipedia_search",
        name,
        {"query": name},
        f"{name}: {page.text}",
        f"The {kind} called {name} is {meaning}.",
        meaning,
        kind,
    )
    last = look_up(world, meaning, relation)
    text = f"What is the {relation} of {name}, the {kind}?"
    return Problem("disambiguation", text, last.value, depth, "a name", "finding the right page", (first, last))


def aggregate(rng: random.Random, world: World, depth: int) -> Problem:
    """Generate a question for the sum, maximum or minimum of the populations of 2-4 cities."""
    cities = rng.sample([title for title in world.titles("city") if "(" not in title], depth + 1)
    found = [look_up(world, city, "population") for city in cities]
    word = rng.choice(list(_TOTALS))
    last = population(word, dict(zip(cities, found, strict=True)))
    listed = f"{', '.join(cities[:-1])} and {cities[-1]}"
    text = f"What is the {word} population of {listed}?"
    takes = f"{len(cities)} look-ups and a calculation"
    return Problem("aggregate", text, last.value, depth, "a number", takes, (*found, last))


_TOTALS: dict[str, tuple[str, Callable[[list[int]], int]]] = {
    "total": ("sum", sum),
    "largest": ("max", max),
    "smallest": ("min", min),
}


def population(word: str, found: Mapping[str, Step]) -> Step:
    """Return the step that computes the total, largest or smallest of the populations that were looked up, by city."""
    function, of = _TOTALS[word]
    facts = ", ".join(f"{city} {step.value}" for city, step in found.items())
    values = [int(step.value) for step in found.values()]
    return compute(f"Compute the {function} of the populations", facts, f"print({function}({values}))", str(of(values)))


def direct(rng: random.Random, world: World, depth: int) -> Problem:
    """Generate a question whose text contains the answer, so that no look-up is needed."""
    one, other = rng.sample(world.titles("person"), 2)
    codes = rng.sample(range(100, 1000), 2)
    asked, code = rng.choice(((one, codes[0]), (other, codes[1])))
    given = f"The codes are {one} {codes[0]} and {other} {codes[1]}."
    text = f"{given} What is the code of {asked}?"
    sub_goal = f"Read the code of {asked}"
    query = request(sub_goal, given)
    reading = f"{asked} {code}"
    finding = f"The text says {reading}."
    step = Step(sub_goal, "base_generator", given, {"query": query}, reading, finding, str(code), "number")
    return Problem("direct", text, str(code), depth, "a number", "reading the question", (step,))


Family = tuple[Callable[[random.Random, World, int], Problem], Mapping[Split, tuple[int, ...]]]
"""Function that generates a problem of a depth, and the depths in each split."""
FAMILIES: Mapping[str, Family] = {
    "arithmetic": (arithmetic, {"train": (1, 2, 3), "test": (1, 2, 3, 4)}),
    "look-up": (hops, {"train": (1,), "test": (1,)}),
    "hops": (hops, {"train": (2, 3), "test": (2, 3, 4)}),
    "compare": (compare, {"train": (1,), "test": (1,)}),
    "years": (years, {"train": (1,), "test": (1,)}),
    "units": (units, {"train": (1, 2), "test": (1, 2)}),
    "dates": (dates, {"train": (1, 2), "test": (1, 2)}),
    "game of 24": (game24, {"train": (1,), "test": (1,)}),
    "countdown": (countdown, {"train": (1,), "test": (1,)}),
    "disambiguation": (disambiguation, {"train": (1,), "test": (1,)}),
    "aggregate": (aggregate, {"train": (1, 2), "test": (1, 2, 3)}),
    "direct": (direct, {"train": (1,), "test": (1,)}),
}
"""The families of Atlas."""


def stream(split: Split, seed: int = 0) -> Iterator[Problem]:
    """Yield distinct questions of a split without end, taking the families in turn; deterministic for a seed.

    Raises ValueError if a family has no new question left.
    """
    rng = random.Random(f"atlas questions {split} {seed}")
    seen: set[str] = set()
    for number in count():
        name = list(FAMILIES)[number % len(FAMILIES)]
        question = next(_new(FAMILIES[name], split, rng, seen), None)
        if question is None:
            raise ValueError(f"the {split} split has no {number // len(FAMILIES) + 1} distinct questions of {name}")
        seen.add(question.question)
        yield question


def _new(family: Family, split: Split, rng: random.Random, seen: set[str]) -> Iterator[Problem]:
    """Yield unseen questions of a family that belong to the split by their names or their hash; at most 5,000 draws."""
    make, depths = family
    for _ in range(5000):
        question = make(rng, rng.choice(worlds(split)), rng.choice(depths[split]))
        if question.question not in seen and belongs(question, split):
            yield question


def belongs(question: Problem, split: Split) -> bool:
    """Return whether a question belongs to a split, by the names in it or by its hash."""
    by_names = any(step.tool == "wikipedia_search" for step in question.steps)
    return by_names or split_of(question.question) == split


@lru_cache(maxsize=8)
def questions(split: Split, number: int, seed: int = 0) -> tuple[Problem, ...]:
    """Return the first `number` questions of `stream`; a smaller number is a prefix of a larger one."""
    return tuple(islice(stream(split, seed), number))
