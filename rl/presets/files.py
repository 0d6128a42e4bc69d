"""The presets as files: their names, and the settings in them, which are read without hydra, verl or torch."""

from pathlib import Path
from typing import Any

import yaml

PRESETS = Path(__file__).parent
SHARED = ("base", "cpu")
"""Files of settings that presets have in common."""


def presets() -> list[str]:
    """Return the names of the presets."""
    return sorted(path.stem for path in PRESETS.glob("*.yaml") if path.stem not in SHARED)


def unknown_preset(name: str) -> str:
    """Return the message for a name that no preset has; "" if one has it."""
    return "" if name in presets() else f"there is no preset '{name}'; the presets are {', '.join(presets())}"


def preset_text(preset: str) -> str:
    """Return as YAML what the files of a preset set, and those that it extends. References are as written."""
    return str(yaml.safe_dump(settings_of(preset), sort_keys=False, allow_unicode=True)).rstrip()


def settings_of(name: str) -> dict[str, Any]:
    """Return what the files of a preset set, and those that it extends."""
    own = yaml.safe_load((PRESETS / f"{name}.yaml").read_text(encoding="utf-8"))
    found: dict[str, Any] = {}
    for base in own.pop("defaults", []):
        if (PRESETS / f"{base}.yaml").exists():  # the others are verl's
            found = _merged(found, settings_of(base))
    return _merged(found, own)


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Return both, with nested settings merged and those of `above` kept."""
    both = {**below, **above}
    nested = [name for name in above if isinstance(above[name], dict) and isinstance(below.get(name), dict)]
    return {**both, **{name: _merged(below[name], above[name]) for name in nested}}
