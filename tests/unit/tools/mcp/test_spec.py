"""MCP servers by name, and the files that other clients have."""

import json
from pathlib import Path

import pytest

from agentflow.tools.mcp.spec import ServerSpec, SpecError, Unavailable, filled, servers
from tests.cases import table
from tests.failing import fails

SERVERS = {
    "files": {"command": "npx", "args": ["-y", "server", "/data"], "env": {"TOKEN": "${FILES_TOKEN}"}, "cwd": "work"},
    "far": {"type": "http", "url": "https://example.org/mcp", "headers": {"Authorization": "Bearer ${FAR_TOKEN}"}},
}


def written(tmp_path: Path, content: object) -> str:
    path = tmp_path / "servers.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def test_a_url_and_a_command() -> None:
    assert servers("http://127.0.0.1:1/mcp") == [ServerSpec("http://127.0.0.1:1/mcp", url="http://127.0.0.1:1/mcp")]
    [server] = servers("stdio:python 'my server.py' --flag")
    assert server.command == ("python", "my server.py", "--flag")
    with fails(SpecError, "bad_spec"):
        servers("stdio:python 'oops")


def test_a_file_as_other_clients_have_it(tmp_path: Path) -> None:
    path = written(tmp_path, {"mcpServers": SERVERS})
    files, far = servers(path)
    assert (files.name, files.folder) == ("files", str(tmp_path / "work"))
    assert files.command == ("npx", "-y", "server", "/data")
    assert files.environment == (("TOKEN", "${FILES_TOKEN}"),)
    assert (far.url, far.headers) == ("https://example.org/mcp", (("Authorization", "Bearer ${FAR_TOKEN}"),))
    assert servers(f"{path}#far") == [far]
    assert "FAR_TOKEN" not in repr(far)
    with fails(SpecError, "unknown_server", "files, far"):
        servers(f"{path}#x")
    toml = tmp_path / "servers.toml"
    toml.write_text('[mcpServers.here]\ncommand = "serve"\nargs = ["--quiet"]\n')
    assert servers(str(toml)) == [ServerSpec("here", command=("serve", "--quiet"))]


@pytest.mark.parametrize(("content", "code", "where"), table(__file__, "wrong_files.txt"))
def test_a_wrong_file_says_where(tmp_path: Path, content: object, code: str, where: str) -> None:
    with fails(SpecError, code, where):
        servers(written(tmp_path, content))


@pytest.mark.parametrize("off", [{"disabled": True}, {"enabled": False}])
def test_a_server_that_is_switched_off_is_left_out(off: dict[str, bool], tmp_path: Path) -> None:
    path = written(
        tmp_path, "\ufeff" + json.dumps({"servers": {"on": {"command": "a"}, "off": {"command": "b", **off}}})
    )
    assert [server.name for server in servers(path)] == ["on"]
    with fails(SpecError, "unknown_server", "on"):
        servers(f"{path}#off")


@pytest.mark.parametrize(("text", "value"), table(__file__, "variables.txt"))
def test_variables_are_filled_in(text: str, value: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAR_TOKEN", "abc")
    monkeypatch.delenv("NOT_SET", raising=False)
    if value is None:
        with fails(Unavailable, "unknown_variable" if "input" in text else "missing_variable"):
            filled(text, "far")
    else:
        assert filled(text, "far") == value
