"""The command line, called in this process."""

import shlex
from typing import Any

from typer.testing import CliRunner, Result

from agentflow.cli import app


def call(*words: object, **how: Any) -> Result:
    """Call `agentflow` with these words; `how` is for typer's runner."""
    return CliRunner().invoke(app, [*map(str, words)], prog_name="agentflow", **how)


def succeeds(*words: object, **how: Any) -> Result:
    """Make a call that must succeed."""
    done = call(*words, **how)
    assert done.exit_code == 0, f"agentflow {shlex.join(map(str, words))}\n{done.output}"
    return done
