"""The modules that the fork server preloads, so that a program spends no time on importing them.

They are imported once a program mentions them, so a server whose programs only do arithmetic stays small and forks
fast. The host scans the program; the server receives only names from this list.
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
    """Return the libraries whose parts all occur as words in `code`. `from scipy import stats` mentions scipy.stats."""
    words = set(re.findall(r"\w+", code))
    return [name for name in LIBRARIES if words.issuperset(name.split("."))]


def load(names: Iterable[str]) -> None:
    """Import the listed modules that are installed. A failed import is left for the program itself to report."""
    for name in names:
        if name in LIBRARIES:
            try:
                import_module(name)
            except Exception:  # noqa: S112 - a broken installation may raise anything
                continue
