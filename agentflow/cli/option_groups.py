"""Groups of options: a dataclass whose fields are options, as one parameter of a command.

Typer reads a command's options from its signature. `with_groups` gives it one in which each parameter that is an
`OptionGroup` is replaced by the fields of that group, and calls the command with the group built from them. A new
option is a new field.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, fields
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, ClassVar, get_args, get_type_hints


@dataclass
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
            values[name] = kind(**{one.name: values.pop(one.name) for one in fields(kind)})
        command(**values)

    called.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return called


def _parameters(kind: type[OptionGroup]) -> list[Parameter]:
    """Return the options of a group as parameters, in its panel."""
    hints = get_type_hints(kind, include_extras=True)
    found = []
    for one in fields(kind):
        of, option = get_args(hints[one.name])
        shown = copy(option)
        shown.rich_help_panel = kind.PANEL
        annotation = Annotated[of, shown]  # type: ignore[valid-type]
        found.append(Parameter(one.name, Parameter.KEYWORD_ONLY, default=one.default, annotation=annotation))
    return found
