"""Specs of MCP servers: the part after "mcp:" in a tool spec.

    mcp:https://host/mcp              a server over (streamable) HTTP
    mcp:stdio:npx -y some-server      a command, started as a subprocess
    mcp:servers.json                  all servers of a file in the usual format, {"mcpServers": {"name": {...}}}
    mcp:servers.json#name             one of them

A file's entry has `command`, `args`, `env` and `cwd`, or `url` and `headers`, as for other MCP clients. TOML is read
too, and VS Code's `servers`. An entry with `"disabled": true` or `"enabled": false` is left out. Only a file can pass
secrets: "${NAME}", "${env:NAME}" or "${NAME:-default}" in `env`, `headers`, `args` or `url` is that variable.
"""

import os
import re
import shlex
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from agentflow.tools.coded_error import CodedError
from agentflow.tools.expected import expected
from agentflow.tools.json_codec import from_json
from agentflow.tools.untrusted_text import bounded_line

_VARIABLE = re.compile(r"(?:env:)?(?P<name>\w+)(?::-(?P<default>.*))?", re.DOTALL)


class SpecError(CodedError, ValueError):
    """A spec that names no tools on any machine."""


class Unavailable(CodedError):
    """Tools that cannot be used at present; the message has the remedy."""


@dataclass(frozen=True)
class ServerSpec:
    """A server. Values may refer to variables, which are resolved when a connection is opened."""

    name: str
    url: str = ""
    command: tuple[str, ...] = ()
    folder: str | None = None
    """Working directory of the command."""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    environment: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Variables of the command, in addition to HOME, PATH and the like. It inherits no others."""


def servers(text: str) -> list[ServerSpec]:
    """Return the servers that `text`, the part after "mcp:", names. Raises SpecError."""
    if text.startswith("stdio:"):
        return [_command(text.removeprefix("stdio:"))]
    if re.match(r"https?://", text):
        return [ServerSpec(name=text, url=text)]
    path, _, name = text.partition("#")
    if not path.endswith((".json", ".toml")):
        raise SpecError(
            f"mcp:{text}: write mcp:https://..., mcp:stdio:COMMAND, mcp:FILE.json or mcp:FILE.json#SERVER",
            code="bad_spec",
        )
    found = _read(Path(path).expanduser())
    if name and name not in found:
        raise SpecError(
            f"{path} has no enabled MCP server '{name}'; it has {', '.join(found) or 'none'}", code="unknown_server"
        )
    return [found[name]] if name else [*found.values()]


def filled(text: str, server: str) -> str:
    """Return `text` with each variable replaced. Raises Unavailable if one is not set and has no default."""

    def value(match: re.Match[str]) -> str:
        variable = _VARIABLE.fullmatch(match[1])
        if variable is None:  # such as ${input:key}, for which VS Code asks
            what = bounded_line(match[0], 80)
            raise Unavailable(f"the MCP server {server} has {what}; write ${{NAME}}", code="unknown_variable")
        if found := os.environ.get(variable["name"]) or variable["default"]:
            return found
        if variable["default"] is not None:
            return ""
        raise Unavailable(
            f"the MCP server {server} needs the environment variable {variable['name']}; set it",
            code="missing_variable",
        )

    return re.sub(r"\$\{([^}]{0,300})\}", value, text)


def _command(text: str) -> ServerSpec:
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise SpecError(f"mcp:stdio:{text}: {error}", code="bad_spec") from error
    if not words:
        raise SpecError("mcp:stdio: names no command; write mcp:stdio:COMMAND ARGUMENTS", code="bad_spec")
    return ServerSpec(name=text.strip(), command=words)


class _Entry(BaseModel):
    """A server's entry in a file. Settings of other programs are ignored."""

    model_config = ConfigDict(extra="ignore")

    command: Annotated[str, StringConstraints(min_length=1)] | None = None
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = {}
    disabled: bool = False
    enabled: bool = True

    @model_validator(mode="after")
    def _one_way(self) -> "_Entry":
        if (self.command is None) == (self.url is None):
            raise ValueError("a server has either a command or a url")
        return self


class _File(BaseModel):
    mcpServers: dict[str, _Entry] = Field(validation_alias=AliasChoices("mcpServers", "servers"))


def _read(path: Path) -> dict[str, ServerSpec]:
    try:
        text = path.read_text(encoding="utf-8-sig")
        content: Any = tomllib.loads(text) if path.suffix == ".toml" else from_json(text)
        entries = _File.model_validate(content).mcpServers
    except OSError as error:
        raise SpecError(f"{path} cannot be read ({error.strerror})", code="unreadable") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise SpecError(f"{path}: {where}: {bounded_line(expected(first), 200)}", code="bad_entry") from error
    except ValueError as error:
        raise SpecError(f"{path} cannot be read ({bounded_line(str(error), 200)})", code="unreadable") from error
    offered = {name: entry for name, entry in entries.items() if entry.enabled and not entry.disabled}
    return {name: _server(name, entry, path.parent) for name, entry in offered.items()}


def _server(name: str, entry: _Entry, beside: Path) -> ServerSpec:
    """Return the server of an entry. A relative `cwd` is relative to the file."""
    return ServerSpec(
        name=name,
        url=entry.url or "",
        command=(entry.command, *entry.args) if entry.command else (),
        folder=str(beside / entry.cwd) if entry.cwd else None,
        headers=tuple(entry.headers.items()),
        environment=tuple(entry.env.items()),
    )
