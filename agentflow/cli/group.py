"""Error handling of every command: a user error is one line on stderr and an exit status.

An error that carries a code ends a command by itself; commands catch one only to say more, or to exit with another
status.

Exit status: 0 on success, 1 if a run failed, 2 for a wrong call or configuration, 130 if interrupted, 141 if the reader
of the output is gone.
"""

import errno
import sys
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from agentflow.cli.usage_errors import UsageError, unknown, worded
from agentflow.tools.coded_error import CodedError
from agentflow.tools.redaction import redacted
from agentflow.tools.untrusted_text import one_line

FAILED, MISUSED, INTERRUPTED, CLOSED = 1, 2, 130, 141
FULL = (errno.ENOSPC, errno.EDQUOT)
"""Values of errno for a full disk or an exhausted quota."""


class CommandGroup(TyperGroup):
    """Typer group that prints errors on one line."""

    def main(self, *args: Any, **options: Any) -> NoReturn:
        """Run the command and exit the process."""
        _hide_type_of_flags(self)
        try:
            code = super().main(*args, **{**options, "standalone_mode": False})
        except UsageError as error:
            say(f"error: {worded(error)}")
            code = MISUSED
        except CodedError as error:
            say(f"error: {error}")
            code = MISUSED if getattr(error, "configuration", True) else FAILED
        except SystemExit as end:  # typer and rich end the process so when the other end of a pipe is closed
            if not isinstance(end.__context__, BrokenPipeError):
                raise
            code = CLOSED
        except OSError as error:
            if error.errno not in FULL:
                raise
            say(f"error: the disk is full{f' ({error.filename})' if error.filename else ''}; make room and try again")
            code = FAILED
        sys.exit(code if isinstance(code, int) else 0)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first word names; a wrong name is an error with the nearest one."""
        if args[0] not in self.commands and not ctx.resilient_parsing:
            ctx.fail(unknown("command", args[0], list(self.commands)))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command, or show what a group has; an interrupt is reported in one line."""
        try:
            found = super().invoke(ctx)
            if self.callback is None and ctx.invoked_subcommand is None:
                typer.echo(ctx.get_help())
            return found
        except KeyboardInterrupt:
            say("interrupted")
            raise typer.Exit(INTERRUPTED) from None


def _hide_type_of_flags(command: Any) -> None:
    """Leave out the type of options without a value, of a command and those in it; typer prints it as <bool>."""
    for option in command.get_params(typer.Context(command)):
        if getattr(option, "is_flag", False):
            option.metavar = ""
    for inner in getattr(command, "commands", {}).values():
        _hide_type_of_flags(inner)


def say(line: str) -> None:
    """Write one line to stderr, with secrets redacted."""
    typer.echo(redacted(one_line(line)), err=True)


def fail(problem: str, code: int) -> NoReturn:
    """End the command with one line on stderr and the exit status `code`."""
    say(f"error: {problem}")
    raise typer.Exit(code)
