"""Patterns of graph nodes by path, `planner`, `research/agent`, `tools/*/model`, and the policies that nodes belong to.

A path is the names of the nodes and named subgraphs that a call was made in, the outermost first, with slashes. A
pattern fits a path where its parts, which may have wildcards, fit consecutive names of it; so the name of a node fits
wherever the node is, and the name of a subgraph fits all nodes in it.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase

Path = tuple[str, ...]

Nodes = Collection[str] | Mapping[str, Collection[str]]
"""Patterns of the nodes that learn, or those of each of several policies by name."""

POLICY_NAME = re.compile(r"[A-Za-z_][\w-]*")


class PolicyNameError(ValueError):
    """A policy has a name that its folder cannot have; `str()` is one line that names it."""


def node_patterns(named: str | Collection[str]) -> list[str]:
    """Return patterns given as a list, or as one string with commas."""
    parts = named.split(",") if isinstance(named, str) else named
    return [pattern for part in parts if (pattern := part.strip())]


def named_nodes(given: str | Collection[str] | Mapping[str, str | Collection[str]]) -> Nodes:
    """Return the nodes of one policy, or of several by name. Raises PolicyNameError."""
    if not isinstance(given, Mapping):
        return node_patterns(given)
    if wrong := next((name for name in given if not POLICY_NAME.fullmatch(name)), None):
        raise PolicyNameError(f"'{wrong}' is no name of a policy; use letters, digits, _ and -")
    return {name: node_patterns(patterns) for name, patterns in given.items()}


def policies_of(nodes: Nodes) -> Mapping[str, Collection[str]]:
    """Return the patterns of each policy by name; "" is the only policy, where none is named."""
    return nodes if isinstance(nodes, Mapping) else {"": nodes}


def all_patterns(nodes: Nodes) -> list[str]:
    """Return the patterns of all policies."""
    return list(dict.fromkeys(pattern for patterns in policies_of(nodes).values() for pattern in patterns))


def fits(pattern: str, path: Sequence[str]) -> bool:
    """Return whether the parts of `pattern` fit consecutive names of `path`."""
    parts = pattern.split("/")
    starts = range(len(path) - len(parts) + 1)
    return any(all(map(fnmatchcase, path[start : start + len(parts)], parts)) for start in starts)


def policy_of(path: Sequence[str], nodes: Nodes) -> str | None:
    """Return the policy that a call at `path` belongs to, None for a call that is not trained.

    It is the first policy that has a pattern that fits, or has no patterns.
    """
    if not path:
        return None
    for name, patterns in policies_of(nodes).items():
        if not patterns or any(fits(pattern, path) for pattern in patterns):
            return name
    return None


def learns(path: Sequence[str], nodes: Nodes) -> bool:
    """Return whether a call at `path` is trained."""
    return policy_of(path, nodes) is not None
