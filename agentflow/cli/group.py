"""How every command ends: what a user can get wrong is one line on stderr and an exit status.

0 with an answer, 1 when a run failed, 2 when the call or the configuration is wrong, 130 when interrupted.
"""

import errno
import sys
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from agentflow.tools.redaction import redacted
from agentflow.tools.untrusted_text import one_line

FAILED, MISUSED, INTERRUPTED = 1, 2, 130
FULL = (errno.ENOSPC, errno.EDQUOT)
"""errno of an OSError: the disk is full, or the user's quota is used up."""

_WrongCall: type[Any] = typer.BadParameter.__bases__[0]
"""Typer's class of all errors in a call, which it does not export."""


class Group(TyperGroup):
    """Typer's group, with errors on one line."""

    def main(self, *args: Any, **options: Any) -> NoReturn:
        """Runs the command and ends the process."""
        try:
            code = super().main(*args, **{**options, "standalone_mode": False})
        except _WrongCall as error:
            command = error.ctx.command_path if error.ctx else "agentflow"
            say(f"error: {error.format_message()} (see {command} --help)")
            code = MISUSED
        except OSError as error:
            if error.errno not in FULL:
                raise
            say(f"error: the disk is full{f' ({error.filename})' if error.filename else ''}; make room and try again")
            code = FAILED
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: Any) -> Any:
        """Runs the command; an interruption is one line."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            say("interrupted")
            raise typer.Exit(INTERRUPTED) from None


def call(ctx: Any, words: list[str]) -> None:
    """Makes another call of the program in this process. Raises typer.Exit where it ends with a status of its own."""
    with ctx.find_root().command.make_context("agentflow", words) as inner:
        inner.command.invoke(inner)


def say(line: str) -> None:
    """Writes one line to stderr, without secrets."""
    typer.echo(redacted(one_line(line)), err=True)


def fail(problem: str, code: int) -> NoReturn:
    """Ends the command with one line on stderr."""
    say(f"error: {problem}")
    raise typer.Exit(code)
