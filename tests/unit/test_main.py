"""The entry point of the command line."""

import builtins
from typing import Any

import pytest

from agentflow.__main__ import main
from agentflow.cli.group import INTERRUPTED


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
