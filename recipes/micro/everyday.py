"""Training data for everyday arithmetic: generated questions that one line of Python answers."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean

from agentflow.evals.atlas.families import PLURAL, UNITS, Problem, Step, compute
from agentflow.evals.atlas.world import split_of
from recipes.micro.words import NOUNS

FAMILY = "everyday"

_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
).split()
_PEOPLE = "Tom Anna Ben Lea Max Ida Sam Eva Leo Mia Paul Nina".split()

_UNITS = UNITS | {
    ("kilometer", "meter"): 1000,
    ("meter", "centimeter"): 100,
    ("meter", "millimeter"): 1000,
    ("centimeter", "millimeter"): 10,
    ("kilogram", "gram"): 1000,
    ("ton", "kilogram"): 1000,
    ("gram", "milligram"): 1000,
    ("liter", "milliliter"): 1000,
    ("pound", "ounce"): 16,
    ("gallon", "pint"): 8,
    ("century", "year"): 100,
    ("decade", "year"): 10,
    ("year", "month"): 12,
    ("dollar", "cent"): 100,
    ("euro", "cent"): 100,
}
_PLURAL = PLURAL | {"century": "centuries"}

_BEFORE = ("", "", "", "", "", "", "Please tell me: ", "Quick question: ", "Can you tell me ", "I would like to know ")


@dataclass(frozen=True)
class Calculation:
    """An expression and ways to ask for its value."""

    expression: str
    value: float
    wordings: Sequence[str]
    exact: bool = True
    """Whether the program prints a whole number without being told how."""


def calculation(rng: random.Random) -> Problem:
    """Generate a question for the value of an expression, asked in figures or in words."""
    found = rng.choice(_KINDS)(rng)
    code = f"print({found.expression})" if found.exact else f'print(f"{{{found.expression}:.10g}}")'
    value = str(found.value) if found.exact else f"{found.value:.10g}"
    step = compute(f"Compute {found.expression}", found.expression, code, value)
    return _problem(_asked(rng, rng.choice(found.wordings)), value, "a calculation", step)


def conversion(rng: random.Random) -> Problem:
    """Generate a question that converts an amount from one unit to another, in either direction."""
    (larger, smaller), factor = rng.choice(list(_UNITS.items()))
    many, few = (_PLURAL.get(unit, f"{unit}s") for unit in (larger, smaller))
    amount = rng.randint(1, 20) if rng.random() < 0.7 else rng.randint(21, 500)
    if rng.random() < 0.7:
        value, source, target = str(amount * factor), many if amount > 1 else larger, few
        code = f"print({amount} * {factor})"
    else:
        value, source, target = str(amount), few, many
        amount *= factor
        code = f'print(f"{{{amount} / {factor}:.10g}}")'
    wording = rng.choice(
        (
            f"How many {target} are {amount} {source}?",
            f"How many {target} are there in {amount} {source}?",
            f"How many {target} are in {amount} {source}?",
            f"How many {target} is {amount} {source}?",
            f"How many {target} does {amount} {source} have?",
            f"How many {target} make {amount} {source}?",
            f"{amount} {source} are how many {target}?",
            f"Convert {amount} {source} to {target}.",
            f"Convert {amount} {source} into {target}",
            f"Change {amount} {source} to {target}.",
            f"What is {amount} {source} in {target}?",
            f"What are {amount} {source} in {target}?",
            f"{amount} {source} in {target}",
            f"Express {amount} {source} in {target}.",
            *([f"How many {target} are in a {source}?", f"How many {target} has a {source}?"] if amount == 1 else []),
        )
    )
    fact = f"1 {larger} is {factor} {few}"
    step = compute(f"Convert {amount} {source} to {target}", fact, code, value)
    return _problem(_asked(rng, wording), value, "a conversion", step)


def question(rng: random.Random) -> Problem:
    """Generate a question of everyday arithmetic, of the train split by its text."""
    while True:
        found = conversion(rng) if rng.random() < 0.35 else calculation(rng)
        if split_of(found.question) == "train":
            return found


def _problem(text: str, value: str, takes: str, step: Step) -> Problem:
    return Problem(FAMILY, text, value, 1, "a number", takes, (step,))


def _asked(rng: random.Random, text: str) -> str:
    """Vary how a question begins and ends, as people write."""
    before = rng.choice(_BEFORE) if text.startswith(("What", "How")) else ""
    if before and not before.endswith(": "):
        text = text[0].lower() + text[1:]
    if rng.random() < 0.12:
        text = text.rstrip("?.")
    if rng.random() < 0.08:
        text = text.lower()
    return before + text


def _number(rng: random.Random, most: int = 100) -> int:
    """Return a number, more often a small one."""
    return rng.randint(2, min(most, rng.choice((12, 30, 100, 1000))))


def _written(rng: random.Random, number: int) -> str:
    """Write a number; small ones sometimes as a word."""
    return _ONES[number] if number < len(_ONES) and rng.random() < 0.12 else str(number)


def _things(rng: random.Random) -> str:
    return f"{rng.choice(NOUNS)}s"


def _sum(rng: random.Random) -> Calculation:
    a, b, thing = _number(rng, 1000), _number(rng, 1000), _things(rng)
    one, other = _written(rng, a), _written(rng, b)
    name, second = rng.sample(_PEOPLE, 2)
    return Calculation(
        f"{a} + {b}",
        a + b,
        (
            f"What is {one} plus {other}?",
            f"What is {a} + {b}?",
            f"How much is {one} plus {other}?",
            f"How much is {a} + {b}?",
            f"{a} + {b}",
            f"{a}+{b}",
            f"{a}+{b}=",
            f"{a} + {b} = ?",
            f"{one} plus {other}",
            f"Add {one} and {other}.",
            f"Add {one} to {other}",
            f"Calculate {a} + {b}.",
            f"Compute {a}+{b}",
            f"What is the sum of {one} and {other}?",
            f"Find the sum of {a} and {b}.",
            f"I have {one} {thing} and buy {other} more. How many do I have?",
            f"I have {one} {thing} and get {other} more. How many {thing} do I have now?",
            f"{name} has {one} {thing} and {second} has {other}. How many do they have together?",
            f"There are {one} red and {other} blue {thing}. How many {thing} are there?",
            f"{name} is {a} years old. How old is {name} in {b} years?",
        ),
    )


def _difference(rng: random.Random) -> Calculation:
    b = _number(rng, 500)
    a, thing, name = b + _number(rng, 500), _things(rng), rng.choice(_PEOPLE)
    one, other = _written(rng, a), _written(rng, b)
    return Calculation(
        f"{a} - {b}",
        a - b,
        (
            f"What is {one} minus {other}?",
            f"What is {a} - {b}?",
            f"How much is {one} minus {other}?",
            f"{a} - {b}",
            f"{a}-{b}",
            f"{a} - {b} = ?",
            f"{one} minus {other}",
            f"Subtract {other} from {one}.",
            f"Take {other} from {one}",
            f"Take {other} away from {one}.",
            f"Calculate {a} - {b}",
            f"Compute {a}-{b}.",
            f"What is the difference between {one} and {other}?",
            f"What is {one} less {other}?",
            f"I have {one} {thing} and give away {other}. How many are left?",
            f"I have {one} {thing} and lose {other}. How many do I have?",
            f"{name} has {one} {thing} and sells {other}. How many {thing} are left?",
            f"There are {one} {thing}. {other} are broken. How many are whole?",
            f"{name} had {one} {thing} and ate {other} of them. How many remain?",
        ),
    )


def _product(rng: random.Random) -> Calculation:
    a, b, thing = _number(rng), _number(rng), _things(rng)
    one, other, pack = _written(rng, a), _written(rng, b), rng.choice(NOUNS)
    many = f"{pack}s"
    return Calculation(
        f"{a} * {b}",
        a * b,
        (
            f"What is {one} times {other}?",
            f"What is {a} * {b}?",
            f"What is {a} x {b}?",
            f"How much is {one} times {other}?",
            f"{a} * {b}",
            f"{a}*{b}",
            f"{a} x {b}",
            f"{a} * {b} = ?",
            f"{one} times {other}",
            f"Multiply {one} by {other}.",
            f"Multiply {a} and {b}",
            f"Calculate {a} * {b}.",
            f"Compute {a}*{b}",
            f"What is {one} multiplied by {other}?",
            f"What is the product of {one} and {other}?",
            f"A {pack} has {one} {thing}. How many {thing} are in {other} {many}?",
            f"A {pack} holds {one} {thing}. How many {thing} do {other} {many} hold?",
            f"There are {other} {many} with {one} {thing} each. How many {thing} are there?",
            f"A ticket costs {a} euros. How much do {b} tickets cost?",
            f"{b} {many} of {a} {thing} each: how many {thing}?",
            f"A car drives {a} miles an hour. How far does it get in {b} hours?",
        ),
    )


def _quotient(rng: random.Random) -> Calculation:
    b = rng.randint(2, 25)
    a = b * _number(rng) if rng.random() < 0.8 else _number(rng, 500)
    one, other, thing = _written(rng, a), _written(rng, b), _things(rng)
    return Calculation(
        f"{a} / {b}",
        a / b,
        (
            f"What is {one} divided by {other}?",
            f"What is {a} / {b}?",
            f"How much is {one} divided by {other}?",
            f"{a} / {b}",
            f"{a}/{b}",
            f"{a} / {b} = ?",
            f"Divide {one} by {other}.",
            f"Divide {a} by {b}",
            f"Calculate {a} / {b}.",
            f"{one} divided by {other}",
            f"How often does {b} go into {a}?",
            f"{other} children share {one} {thing}. How many does each get?",
            f"{one} {thing} are shared by {other} people. How many does each get?",
            f"Split {a} {thing} into {b} equal parts. How many are in each?",
        ),
        exact=False,
    )


def _percentage(rng: random.Random) -> Calculation:
    share, of = rng.choice((1, 2, 5, 10, 12, 15, 20, 25, 30, 40, 50, 60, 70, 75, 80, 90)), _number(rng, 1000)
    return Calculation(
        f"{of} * {share} / 100",
        of * share / 100,
        (
            f"What is {share} percent of {of}?",
            f"What is {share}% of {of}?",
            f"How much is {share} percent of {of}?",
            f"{share}% of {of}",
            f"{share} percent of {of}",
            f"Calculate {share}% of {of}.",
            f"Find {share} percent of {of}.",
            f"What are {share} percent of {of} euros?",
        ),
        exact=False,
    )


def _part(rng: random.Random) -> Calculation:
    word, parts = rng.choice((("half", 2), ("a third", 3), ("a quarter", 4), ("a fifth", 5), ("a tenth", 10)))
    of = parts * _number(rng, 300) if rng.random() < 0.8 else _number(rng, 300)
    return Calculation(
        f"{of} / {parts}",
        of / parts,
        (
            f"What is {word} of {of}?",
            f"How much is {word} of {of}?",
            f"{word} of {of}",
            f"Find {word} of {of}.",
            f"What is {word} the number {of}?",
        ),
        exact=False,
    )


def _multiple(rng: random.Random) -> Calculation:
    word, times = rng.choice((("double", 2), ("twice", 2), ("triple", 3), ("three times", 3), ("four times", 4)))
    of = _number(rng, 1000)
    return Calculation(
        f"{times} * {of}",
        times * of,
        (f"What is {word} {of}?", f"How much is {word} {of}?", f"{word} {of}", f"What is {word} the number {of}?"),
    )


def _power(rng: random.Random) -> Calculation:
    base, exponent = rng.randint(2, 30), rng.choice((2, 2, 2, 3, 3, 4, 5))
    wordings = [
        f"What is {base} to the power of {exponent}?",
        f"{base} to the power of {exponent}",
        f"What is {base}^{exponent}?",
        f"{base}^{exponent}",
        f"{base} ** {exponent}",
        f"Raise {base} to the power of {exponent}.",
    ]
    if word := {2: "squared", 3: "cubed"}.get(exponent):
        more = {2: "square", 3: "cube"}[exponent]
        wordings += [f"What is {base} {word}?", f"How much is {base} {word}?", f"{base} {word}"] * 2
        wordings += [f"What is the {more} of {base}?", f"Find the {more} of {base}."]
    return Calculation(f"{base} ** {exponent}", base**exponent, wordings)


def _root(rng: random.Random) -> Calculation:
    of = rng.randint(2, 40) ** 2 if rng.random() < 0.85 else rng.randint(2, 500)
    return Calculation(
        f"{of} ** 0.5",
        of**0.5,
        (
            f"What is the square root of {of}?",
            f"How much is the square root of {of}?",
            f"square root of {of}",
            f"Find the square root of {of}.",
            f"sqrt({of})",
            f"What is the root of {of}?",
        ),
        exact=False,
    )


def _total(rng: random.Random) -> Calculation:
    numbers = [_number(rng, 500) for _ in range(rng.randint(3, 5))]
    listed, expression = _listed(numbers), " + ".join(map(str, numbers))
    return Calculation(
        expression,
        sum(numbers),
        (
            f"What is the sum of {listed}?",
            f"Add {listed}.",
            f"Add up {listed}",
            f"What is {expression}?",
            expression,
            f"Calculate {expression}",
            f"What do {listed} make together?",
            f"How much are {listed} in total?",
        ),
    )


def _average(rng: random.Random) -> Calculation:
    numbers = [_number(rng) for _ in range(rng.randint(2, 5))]
    listed = _listed(numbers)
    word = rng.choice(("average", "mean"))
    return Calculation(
        f"({' + '.join(map(str, numbers))}) / {len(numbers)}",
        mean(numbers),
        (
            f"What is the {word} of {listed}?",
            f"Find the {word} of {listed}.",
            f"{word} of {listed}",
            f"Calculate the {word} of {listed}",
        ),
        exact=False,
    )


def _remainder(rng: random.Random) -> Calculation:
    a, b = rng.randint(10, 500), rng.randint(2, 20)
    return Calculation(
        f"{a} % {b}",
        a % b,
        (
            f"What is the remainder of {a} divided by {b}?",
            f"What is {a} modulo {b}?",
            f"What remains when {a} is divided by {b}?",
            f"{a} mod {b}",
            f"Find the remainder when {a} is divided by {b}.",
        ),
    )


def _formula(rng: random.Random) -> Calculation:
    a, b, c = (rng.randint(2, 30) for _ in range(3))
    form, of = rng.choice(
        (
            (f"{a} + {b} * {c}", a + b * c),
            (f"{a} * {b} + {c}", a * b + c),
            (f"{a} * {b} - {c}", a * b - c),
            (f"({a} + {b}) * {c}", (a + b) * c),
            (f"{a} * ({b} + {c})", a * (b + c)),
            (f"{a * b} - {a} * {c % b}", a * b - a * (c % b)),
            (f"{a} + {b} - {c}", a + b - c),
            (f"{a} - {b} + {c}", a - b + c),
            (f"{a} * {b} * {c}", a * b * c),
        )
    )
    tight = form.replace(" ", "")
    return Calculation(
        form,
        of,
        (
            f"What is {form}?",
            f"How much is {form}?",
            form,
            tight,
            f"{form} = ?",
            f"Calculate {form}.",
            f"Compute {form}",
            f"Evaluate {form}.",
            f"What does {form} make?",
            f"What is {tight}?",
        ),
    )


def _listed(numbers: Sequence[int]) -> str:
    return f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


_KINDS: tuple[Callable[[random.Random], Calculation], ...] = (
    *(_sum, _difference, _product, _quotient) * 2,
    *(_percentage, _part, _multiple, _power, _root, _total, _average, _remainder, _formula),
)
