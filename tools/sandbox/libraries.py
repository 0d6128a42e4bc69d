"""Which modules the fork server holds ready, so that a program need not spend its time on importing them.

They are imported once a program mentions them: a server whose programs only count stays small and forks fast. It is
the host that reads the program; the server never sees more of it than names from this list.
"""

import re
from collections.abc import Iterable
from importlib import import_module

LIBRARIES = (
    *("asyncio", "collections", "csv", "dataclasses", "datetime", "decimal", "fractions", "functools", "heapq"),
    *("itertools", "json", "math", "random", "re", "statistics", "string", "traceback", "typing"),
    *("numpy", "numpy.linalg", "numpy.random", "sympy", "pandas"),
    *("scipy", "scipy.constants", "scipy.integrate", "scipy.interpolate", "scipy.linalg", "scipy.optimize"),
    *("scipy.signal", "scipy.sparse", "scipy.special", "scipy.stats"),
    *("base64", "io", "pypdf", "trafilatura"),
)


def mentioned(code: str) -> list[str]:
    """Those of the libraries of which every part occurs as a word: `from scipy import stats` mentions scipy.stats."""
    words = set(re.findall(r"\w+", code))
    return [name for name in LIBRARIES if words.issuperset(name.split("."))]


def load(names: Iterable[str]) -> None:
    """Imports what is installed of the list; what cannot be imported fails in the program that wants it."""
    for name in names:
        if name in LIBRARIES:
            try:
                import_module(name)
            except Exception:  # noqa: S112 - a broken installation may raise anything
                continue
