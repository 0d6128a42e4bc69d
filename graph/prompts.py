"""Prompts that a run may set: the system message of a module, with placeholders in braces for what the node puts in.

A placeholder is a name in braces that the module knows; all other braces are text, so that a prompt may show JSON.
They are filled in one pass and not by `str.format`: what is put in, a tool's description for one, is never read again.
The nodes hold the default texts, beside the parsers of what these ask for.
"""

import re
from dataclasses import dataclass
from typing import Literal

Prompted = Literal["analyst", "planner", "executor", "verifier", "generator"]


@dataclass(frozen=True)
class Placeholders:
    """What a module's prompt has to mention, and what it may."""

    needed: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ", ".join(f"{{{name}}}" for name in (*self.needed, *self.optional)) or "none"


PLACEHOLDERS: dict[Prompted, Placeholders] = {
    "analyst": Placeholders(needed=("tools",)),
    "planner": Placeholders(needed=("tools",)),
    "executor": Placeholders(needed=("name", "description", "arguments"), optional=("limits", "examples")),
    "verifier": Placeholders(),
    "generator": Placeholders(),
}

_PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")


def check(module: Prompted, text: str) -> None:
    """Raises ValueError if `text` cannot be the prompt of `module`."""
    known, found = PLACEHOLDERS[module], set(_PLACEHOLDER.findall(text))
    if not text.strip():
        raise ValueError(f"the {module}'s prompt is empty; leave it out for the default")
    if missing := [name for name in known.needed if name not in found]:
        raise ValueError(f"the {module}'s prompt lacks {{{missing[0]}}}")
    if unknown := sorted(found - {*known.needed, *known.optional}):
        raise ValueError(f"the {module}'s prompt has an unknown placeholder {{{unknown[0]}}}; it may have: {known}")


def fill(text: str, **values: str) -> str:
    """`text` with its placeholders replaced by `values`."""
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), text)
