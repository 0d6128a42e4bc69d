"""The entry point of the command line."""

import builtins
import sys
from types import SimpleNamespace
from typing import Any
from urllib.request import proxy_bypass

import pytest

from agentflow.__main__ import main
from agentflow.cli.group import INTERRUPTED
from agentflow.version import pip_install


def test_ctrl_c_while_the_command_is_imported_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def interrupted(name: str, *arguments: Any) -> Any:
        if name == "agentflow.cli":
            raise KeyboardInterrupt
        return imported(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", interrupted)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == INTERRUPTED


def test_a_command_reaches_servers_of_this_machine_past_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:80")
    monkeypatch.setattr(sys, "argv", ["agentflow", "--version"])
    with pytest.raises(SystemExit):
        main()
    assert proxy_bypass("localhost")


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        ('{"dir_info": {"editable": true}, "url": "file:///a"}', ".[web]"),
        ('{"dir_info": {}, "url": "file:///a%20clone"}', "/a clone[web]"),
        ('{"archive_info": {}, "url": "file:///a.whl"}', "agentflow-langgraph[web] @ file:///a.whl"),
        ('{"vcs_info": {"vcs": "git"}, "url": "https://a/b"}', "agentflow-langgraph[web] @ git+https://a/b"),
        (None, "agentflow-langgraph[web]"),
    ],
)
def test_what_is_missing_is_installed_from_the_clone_if_there_is_one(
    monkeypatch: pytest.MonkeyPatch, origin: str | None, command: str
) -> None:
    installed = SimpleNamespace(read_text=lambda name: origin)
    monkeypatch.setattr("importlib.metadata.distribution", lambda name: installed)
    assert pip_install("web") == f"pip install '{command}'"
