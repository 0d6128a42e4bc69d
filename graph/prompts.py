"""Custom prompts of a run: the system message of a module, with placeholders in braces for values from the node.

A placeholder is a name in braces that the module knows. All other braces are text, so a prompt may contain JSON.
Placeholders are filled in one pass instead of by `str.format`, so that inserted values, such as a tool's description,
are never parsed again. The nodes contain the default texts, next to the parsers of the replies.
"""

import re
from dataclasses import dataclass
from typing import Literal

Prompted = Literal["analyst", "planner", "executor", "verifier", "generator"]


@dataclass(frozen=True)
class Placeholders:
    """The required and the optional placeholders of a module's prompt."""

    needed: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ", ".join(f"{{{name}}}" for name in (*self.needed, *self.optional)) or "none"


PLACEHOLDERS: dict[Prompted, Placeholders] = {
    "analyst": Placeholders(needed=("tools",)),
    "planner": Placeholders(needed=("tools",)),
    "executor": Placeholders(needed=("name", "description", "arguments"), optional=("limits", "examples", "form")),
    "verifier": Placeholders(),
    "generator": Placeholders(),
}

_PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")


def check(module: Prompted, text: str) -> None:
    """Raise ValueError if `text` is not a valid prompt of `module`."""
    known, found = PLACEHOLDERS[module], set(_PLACEHOLDER.findall(text))
    if not text.strip():
        raise ValueError(f"the {module}'s prompt is empty; leave it out for the default")
    if missing := [name for name in known.needed if name not in found]:
        raise ValueError(f"the {module}'s prompt lacks {{{missing[0]}}}")
    if unknown := sorted(found - {*known.needed, *known.optional}):
        raise ValueError(f"the {module}'s prompt has an unknown placeholder {{{unknown[0]}}}; it may have: {known}")


def fill(text: str, **values: str) -> str:
    """Return `text` with its placeholders replaced by `values`."""
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), text)
