"""Groups of options: a dataclass whose fields are options, as one parameter of a command.

Typer reads a command's options from its signature. `with_groups` gives it one in which each parameter that is an
`OptionGroup` is replaced by the fields of that group, and calls the command with the group built from them. A new
option is a new field.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import fields
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, ClassVar, get_args, get_origin, get_type_hints

from typer.models import OptionInfo


class OptionGroup:
    """Base of the groups; a subclass is a dataclass."""

    PANEL: ClassVar[str]
    """Panel of the help in which the group's options stand."""


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the signature in which groups are replaced by their fields."""
    hints = get_type_hints(command, include_extras=True)
    groups = {name: kind for name, kind in hints.items() if isinstance(kind, type) and issubclass(kind, OptionGroup)}
    parameters: list[Parameter] = []
    for name, parameter in signature(command).parameters.items():
        if name in groups:
            parameters += _parameters(groups[name])
        else:
            parameters.append(parameter.replace(annotation=hints[name], kind=Parameter.KEYWORD_ONLY))

    @wraps(command)
    def called(**values: Any) -> None:
        for name, kind in groups.items():
            values[name] = kind(**{field: values.pop(field) for field in _fields(kind)})
        command(**values)

    called.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return called


def _fields(kind: type) -> dict[str, Any]:
    """Return the names of a group's options, with their defaults."""
    return {one.name: one.default for one in fields(kind)}


def _parameters(kind: type[OptionGroup]) -> list[Parameter]:
    """Return the options of a group as parameters, in its panel."""
    hints = get_type_hints(kind, include_extras=True)
    return [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=_in_panel(hints[name], kind.PANEL))
        for name, default in _fields(kind).items()
    ]


def _in_panel(annotation: Any, panel: str) -> Any:
    if get_origin(annotation) is not Annotated:
        return annotation
    kind, *extras = get_args(annotation)
    shown = [copy(extra) for extra in extras]
    for extra in shown:
        if isinstance(extra, OptionInfo):
            extra.rich_help_panel = panel
    return Annotated[kind, *shown]
