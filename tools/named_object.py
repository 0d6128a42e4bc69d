"""Python objects by name, `module:attribute`: how configuration names what is the user's own."""

import importlib
import os
import re
import sys

from agentflow.tools.untrusted_text import bounded_line

_NAME = re.compile(r"([A-Za-z_][\w.]*):([A-Za-z_][\w.]*)")


class NamedObjectError(ValueError):
    """A name leads to no object; `str()` is one line that says why."""


def is_object_name(name: str) -> bool:
    """Whether `name` has the form module:attribute."""
    return _NAME.fullmatch(name) is not None


def named_object(name: str) -> object:
    """The object that `module:attribute` names; the module may lie in the current folder.

    It is the user's own code, and runs here when it is imported. Raises NamedObjectError.
    """
    if (match := _NAME.fullmatch(name)) is None:
        raise NamedObjectError(f"'{bounded_line(name, 120)}' is not of the form module:attribute")
    # As `python -m` does: the user's modules lie in the folder that they work in.
    if (here := os.getcwd()) not in sys.path and "" not in sys.path:
        sys.path.append(here)
    try:
        found: object = importlib.import_module(match[1])
        for attribute in match[2].split("."):
            found = getattr(found, attribute)
    except Exception as error:  # the user's module runs here, and may raise anything
        raise NamedObjectError(f"{name} cannot be imported ({said(error)})") from error
    return found


def said(error: Exception) -> str:
    """The error on one bounded line."""
    return bounded_line(f"{type(error).__name__}: {error}", 200)
