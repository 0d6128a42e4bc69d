"""Wording of typer's errors about a wrong call: one line, in the words of our own errors.

Typer reports a wrong value with pydantic's text, written for programmers. What an error is, is read from its class and
its fields; the names of the classes are typer's, which does not export them.
"""

from difflib import get_close_matches
from typing import Any

import typer

UsageError: type[Any] = typer.BadParameter.__bases__[0]
"""Typer's base class of all errors about a wrong call."""


def worded(error: Any) -> str:
    """Describe a `UsageError`: the option or argument, what is wrong with it, and the help that explains it."""
    return f"{_problem(error)} (see {error.ctx.command_path} --help)" if error.ctx else _problem(error)


def unknown(kind: str, name: str, known: list[str]) -> str:
    """Say that there is no option, or command, of this name, and name the nearest that exists."""
    words = {one.lstrip("-"): one for one in known}
    near = [words[word] for word in get_close_matches(name.lstrip("-"), words, n=1)]
    return f"there is no {kind} {name}{f'; the nearest is {near[0]}' if near else ''}"


def _problem(error: Any) -> str:
    match type(error).__name__:
        case "MissingParameter":
            return f"{_name(error.param)} is missing"
        case "NoSuchOption":
            return unknown("option", error.option_name, list(error.possibilities or ()))
        case "BadOptionUsage":
            takes = "takes no value" if "not take" in error.message else "needs a value"
            return f"{error.option_name} {takes}"
        case "BadParameter":
            return f"{_name(error.param)}: {_wrong_value(error)}"
    _, unexpected, words = error.message.partition("unexpected extra argument")
    if unexpected:
        return f"unexpected: {words.partition(' (')[2].removesuffix(')')}; a text with spaces needs quotes"
    return str(error.message)


def _name(param: Any) -> str:
    """Return the name of a parameter as its help writes it."""
    return str(param.opts[0] if param.param_type_name == "option" else param.metavar or param.name.upper())


def _wrong_value(error: Any) -> str:
    from pydantic import ValidationError

    from agentflow.tools.expected import expected

    wrong = error.__cause__
    said = expected(wrong.errors()[0]) if isinstance(wrong, ValidationError) else error.message
    return str(said).removesuffix(".")
