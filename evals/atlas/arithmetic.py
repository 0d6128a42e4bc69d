"""Search for expressions in Game of 24 and similar puzzles: a function, and a program for python_coder."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import permutations, product
from operator import add, mul, sub, truediv

SHAPES = (
    "(({}{}{}){}{}){}{}",
    "({}{}({}{}{})){}{}",
    "({}{}{}){}({}{}{})",
    "{}{}(({}{}{}){}{})",
    "{}{}({}{}({}{}{}))",
)
"""The five ways to bracket four numbers."""

_OPERATORS: dict[str, Callable[..., float]] = {"+": add, "-": sub, "*": mul, "/": truediv}
_VALUES: tuple[Callable[..., float], ...] = (
    lambda a, x, b, y, c, z, d: z(y(x(a, b), c), d),
    lambda a, x, b, y, c, z, d: z(x(a, y(b, c)), d),
    lambda a, x, b, y, c, z, d: y(x(a, b), z(c, d)),
    lambda a, x, b, y, c, z, d: x(a, z(y(b, c), d)),
    lambda a, x, b, y, c, z, d: x(a, y(b, z(c, d))),
)


@lru_cache(maxsize=4096)
def first_expression(numbers: tuple[int, ...], target: int) -> str | None:
    """Return the first expression of four numbers that makes `target`, in the search order of `search_program`."""
    for a, b, c, d in permutations(numbers):
        for (x, one), (y, two), (z, three) in product(_OPERATORS.items(), repeat=3):
            for shape, value_of in zip(SHAPES, _VALUES, strict=True):
                try:
                    if abs(value_of(a, one, b, two, c, three, d) - target) < 1e-6:
                        return shape.format(a, x, b, y, c, z, d)
                except ZeroDivisionError:
                    pass
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
