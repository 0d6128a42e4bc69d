"""Patterns of graph nodes by path, `planner`, `research/agent`, `tools/*/model`.

A path is the names of the nodes and named subgraphs that a call was made in, the outermost first, with slashes. A
pattern fits a path where its parts, which may have wildcards, fit consecutive names of it; so the name of a node fits
wherever the node is, and the name of a subgraph fits all nodes in it.
"""

from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase

Path = tuple[str, ...]

Nodes = Collection[str]
"""Patterns of the nodes that learn; none fits all nodes."""


def node_patterns(named: str | Collection[str]) -> list[str]:
    """Return patterns given as a list, or as one string with commas."""
    parts = named.split(",") if isinstance(named, str) else named
    return [pattern for part in parts if (pattern := part.strip())]


def fits(pattern: str, path: Sequence[str]) -> bool:
    """Return whether the parts of `pattern` fit consecutive names of `path`."""
    parts = pattern.split("/")
    starts = range(len(path) - len(parts) + 1)
    return any(all(map(fnmatchcase, path[start : start + len(parts)], parts)) for start in starts)


def learns(path: Sequence[str], nodes: Nodes) -> bool:
    """Return whether a call at `path` is trained."""
    return bool(path) and (not nodes or any(fits(pattern, path) for pattern in nodes))
