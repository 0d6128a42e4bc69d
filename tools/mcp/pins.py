"""Hashes of the tools that each MCP server offered at first use, so that changes do not go unnoticed.

A model reads the tools' descriptions, so a server that is harmless when it is chosen could put instructions in them
later. A new or changed tool makes its server unavailable until `agentflow tools --approve` accepts it. Each server has
a file in the user's data directory. If it cannot be written, a warning is logged and nothing is pinned.
"""

import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs
from pydantic import TypeAdapter

from agentflow.tools.mcp.spec import ServerSpec, Unavailable
from agentflow.tools.untrusted_text import bounded_line

if TYPE_CHECKING:
    from mcp.types import Tool

_Pins = TypeAdapter(dict[str, str])
"""Hashes by tool name."""

_log = logging.getLogger(__name__)


def check(spec: ServerSpec, offered: "Sequence[Tool]") -> None:
    """Compare a server's tools with its pins, or create them. Raises Unavailable."""
    pins, path = {tool.name: _digest(tool) for tool in offered}, _path(spec)
    try:
        pinned = _read(path)
        if pinned is None:
            _write(path, pins)
            return
    except OSError as error:
        _log.warning("the tools of the MCP server %s are not pinned: %s (%s)", spec.name, path, error.strerror)
        return
    if changed := [name for name, digest in pins.items() if pinned.get(name) != digest]:
        names = bounded_line(", ".join(changed), 200)
        raise Unavailable(
            f"the MCP server {spec.name} has new or changed tools ({names}); "
            "add --approve to `agentflow tools --tools ...` to see and take them",
            code="changed_tools",
        )


def forget(spec: ServerSpec) -> None:
    """Delete a server's pins, so that its next use pins its tools anew."""
    _path(spec).unlink(missing_ok=True)


def _path(spec: ServerSpec) -> Path:
    identity = json.dumps([spec.url, spec.command, spec.folder])
    return (
        Path(platformdirs.user_data_dir("agentflow")) / "mcp" / f"{hashlib.sha256(identity.encode()).hexdigest()}.json"
    )


def _digest(tool: "Tool") -> str:
    declared = tool.model_dump(mode="json", include={"name", "title", "description", "input_schema", "annotations"})
    return hashlib.sha256(json.dumps(declared, sort_keys=True).encode()).hexdigest()


def _read(path: Path) -> dict[str, str] | None:
    """Return the pins, or None if there are none yet. A damaged file gives empty pins, which match no tool."""
    try:
        return _Pins.validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError:
        return {}


def _write(path: Path, pins: dict[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(_Pins.dump_json(pins))
    os.replace(name, path)
