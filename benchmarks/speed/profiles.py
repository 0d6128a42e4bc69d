"""Share of a run's time by package, from a profile of its functions."""

import cProfile
import pstats
import re
from collections import defaultdict
from pathlib import Path

TOP = 8
"""Number of packages that are listed."""

_OURS = re.compile(r"/(agentflow|graph|nodes|tools|rl|evals|benchmarks)/")
_Function = tuple[str, int, str]


def package(file: str) -> str:
    """Return the package of a source file: its distribution, ours, or Python."""
    if "site-packages" in file:
        return Path(file.rpartition("site-packages/")[2]).parts[0].removesuffix(".py")
    if "/benchmarks/" in file:
        return "the benchmark's client"
    return "agentflow" if _OURS.search(file) and "/lib/python" not in file else f"Python: {_standard(file)}"


def _standard(file: str) -> str:
    parts = Path(re.sub(r".*/lib/python[\d.]+/", "", file)).parts
    return parts[0].removesuffix(".py") if parts else file


def shares(profile: cProfile.Profile) -> dict[str, float]:
    """Return the shares of the top packages. Built-in functions count for the package that calls them."""
    taken: defaultdict[str, float] = defaultdict(float)
    stats: dict[_Function, tuple[int, int, float, float, dict[_Function, tuple[int, int, float, float]]]]
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    for (file, _, name), (_, _, own, _, callers) in stats.items():
        if "epoll" in name:
            continue  # waits
        if not file.startswith(("~", "<")):
            taken[package(file)] += own
            continue
        for (caller, _, _), (_, _, seconds, _) in callers.items():
            taken["Python" if caller.startswith(("~", "<")) else package(caller)] += seconds
    whole = sum(taken.values()) or 1.0
    most = sorted(taken.items(), key=lambda one: -one[1])[:TOP]
    return {name: round(seconds / whole, 3) for name, seconds in most}
