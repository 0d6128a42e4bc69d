"""Search for expressions in Game of 24 and similar puzzles: a function, and a program for python_coder."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import permutations, product

SHAPES = (
    "(({}{}{}){}{}){}{}",
    "({}{}({}{}{})){}{}",
    "({}{}{}){}({}{}{})",
    "{}{}(({}{}{}){}{})",
    "{}{}({}{}({}{}{}))",
)
"""The five ways to bracket four numbers."""

_Number = float | None


def _apply(operator: str, left: _Number, right: _Number) -> _Number:
    if left is None or right is None or (operator == "/" and right == 0):
        return None
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    return left * right if operator == "*" else left / right


_VALUES: tuple[Callable[..., _Number], ...] = (
    lambda a, x, b, y, c, z, d: _apply(z, _apply(y, _apply(x, a, b), c), d),
    lambda a, x, b, y, c, z, d: _apply(z, _apply(x, a, _apply(y, b, c)), d),
    lambda a, x, b, y, c, z, d: _apply(y, _apply(x, a, b), _apply(z, c, d)),
    lambda a, x, b, y, c, z, d: _apply(x, a, _apply(z, _apply(y, b, c), d)),
    lambda a, x, b, y, c, z, d: _apply(x, a, _apply(y, b, _apply(z, c, d))),
)


@lru_cache(maxsize=4096)
def first_expression(numbers: tuple[int, ...], target: int) -> str | None:
    """Return the first expression of four numbers that makes `target`, in the search order of `search_program`."""
    for a, b, c, d in permutations(numbers):
        for x, y, z in product("+-*/", repeat=3):
            for shape, value_of in zip(SHAPES, _VALUES, strict=True):
                value = value_of(a, x, b, y, c, z, d)
                if value is not None and abs(value - target) < 1e-6:
                    return shape.format(a, x, b, y, c, z, d)
    return None


def search_program(numbers: Sequence[int], target: int) -> str:
    """Return a Python program that prints `first_expression(numbers, target)`."""
    shapes = ", ".join(f'"{shape}"' for shape in SHAPES)
    return (
        "from itertools import permutations, product\n"
        f"shapes = {shapes}\n"
        f"for a, b, c, d in permutations([{', '.join(map(str, numbers))}]):\n"
        '    for x, y, z in product("+-*/", repeat=3):\n'
        "        for shape in shapes:\n"
        "            text = shape.format(a, x, b, y, c, z, d)\n"
        "            try:\n"
        f"                if abs(eval(text) - {target}) < 1e-6:\n"
        "                    print(text)\n"
        "                    raise SystemExit\n"
        "            except ZeroDivisionError:\n"
        "                pass"
    )
