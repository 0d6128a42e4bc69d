"""`agentflow threads`, and the saved runs of `agentflow solve --thread`."""

import asyncio
import re
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from agentflow.cli.group import MISUSED, CommandGroup, fail
from agentflow.cli.options import AsJson, Checkpoints
from agentflow.console.approval import is_proposal
from agentflow.console.terminal import console, counted, print_json
from agentflow.console.threads import print_threads, thread_data, thread_text

if TYPE_CHECKING:
    from agentflow.graph.agent import Agent
    from agentflow.graph.context import Context
    from agentflow.graph.threads import SavedThread

_Found = TypeVar("_Found")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

app = typer.Typer(
    cls=CommandGroup,
    invoke_without_command=True,
    help="List, show and delete the runs saved by solve --thread and chat --thread.",
)


@dataclass(frozen=True)
class RunLocation:
    """Location of a saved run: the spec of its checkpoint store, and its thread."""

    spec: str
    thread: str

    @classmethod
    def of(cls, checkpoints: str | None, thread: str | None) -> "RunLocation":
        """Build it from the options --checkpoints and --thread; ends the command if they do not fit together."""
        if thread is None and checkpoints is not None:
            fail("--checkpoints keeps a run under a name; give one with --thread", MISUSED)
        if thread is not None and not thread.strip():
            fail("--thread needs a name", MISUSED)
        return UNSAVED if thread is None else cls(place(checkpoints), thread.strip())


UNSAVED = RunLocation("memory", "")


def place(checkpoints: str | None) -> str:
    """Return where threads are stored: --checkpoints, or by default a file in the user's data folder."""
    import platformdirs

    if checkpoints == "memory":
        fail("memory forgets threads when the command ends; write sqlite:PATH", MISUSED)
    return checkpoints or f"sqlite:{Path(platformdirs.user_data_dir('agentflow')) / 'threads.sqlite'}"


def check_terminal(as_json: bool) -> None:
    """End the command if there is no terminal to ask for approval at."""
    if as_json or not sys.stdin.isatty() or not sys.stdout.isatty():
        fail("--approve asks at the terminal; run it in one, without --json", MISUSED)


def found_run(run: RunLocation, context: "Context") -> "SavedThread":
    """Return the interrupted run of a thread. Ends the command if there is none or its settings differ from `context`.

    Settings are never taken from the database, since anyone who can write there could name tools to run and servers to
    send keys to.
    """
    from agentflow.graph.threads import saved_thread

    saved = _ask(run.spec, lambda agent: saved_thread(agent, run.thread))
    if saved is None:
        fail(f"there is no thread {run.thread}; ask a question to begin it", MISUSED)
    if saved.state == "finished":
        fail(f"thread {run.thread} is finished; ask a new question, or see agentflow threads show", MISUSED)
    free = {"approve_tools"}
    began, now = saved.context.model_dump(exclude=free), context.model_dump(exclude=free)
    if other := [f"{name} {began[name]!r}" for name in began if began[name] != now[name]]:
        fail(f"thread {run.thread} began with other settings ({'; '.join(other)}); give the same options", MISUSED)
    if is_proposal(saved.waits) and not context.approve_tools:
        fail(f"thread {run.thread} waits for approval of {saved.waits['tool']}; add --approve", MISUSED)
    return saved


@app.command("list", epilog="Example: agentflow threads list")
def list_threads(checkpoints: Checkpoints = None, as_json: AsJson = False) -> None:
    """List the threads with the state of their last run."""
    from agentflow.graph.threads import threads

    found = _ask(place(checkpoints), threads)
    if as_json:
        print_json({"threads": found})
    elif found:
        print_threads(console(), found)
    else:
        typer.echo('there are no threads; begin one: agentflow solve "QUESTION" --thread NAME')


@app.command("show", epilog="Example: agentflow threads show monday")
def show_thread(
    name: Annotated[str, typer.Argument(help="A thread; see agentflow threads list.")],
    checkpoints: Checkpoints = None,
    as_json: AsJson = False,
) -> None:
    """Show a conversation: what was said, and the last run with its turns, its answer, or the call that waits."""
    from agentflow.graph.threads import saved_thread

    saved = _ask(place(checkpoints), lambda agent: saved_thread(agent, name))
    if saved is None:
        fail(f"there is no thread {name}; see agentflow threads list", MISUSED)
    if as_json:
        print_json({"thread": name, **thread_data(saved)})
    else:
        console().print(thread_text(name, saved))


@app.command("prune", epilog="Example: agentflow threads prune --older-than 30d")
def prune_threads(
    older_than: Annotated[str, typer.Option(metavar="AGE", help="90m, 12h, 30d or 4w.")] = "30d",
    yes: Annotated[bool, typer.Option("--yes", help="Delete without asking.")] = False,
    checkpoints: Checkpoints = None,
) -> None:
    """Delete the threads that were not used for so long."""
    from agentflow.graph import threads

    before, spec = datetime.now(UTC) - _age(older_than), place(checkpoints)
    chosen = [thread.id for thread in _ask(spec, threads.threads) if thread.updated < before]
    _confirm(chosen, yes)
    if chosen:
        _ask(spec, lambda agent: threads.delete(agent, chosen))
    typer.echo(f"deleted {counted(len(chosen), 'thread')}")


def _confirm(chosen: list[str], yes: bool) -> None:
    if not chosen or yes:
        return
    if not sys.stdin.isatty():
        fail(f"this deletes {counted(len(chosen), 'thread')}; add --yes", MISUSED)
    if not typer.confirm(f"delete {counted(len(chosen), 'thread')}?"):
        raise typer.Exit


def _age(text: str) -> timedelta:
    match = re.fullmatch(r"(\d{1,5})([mhdw])", text.strip())
    if match is None:
        fail(f"--older-than {text} is no age; write 90m, 12h, 30d or 4w", MISUSED)
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def _ask(spec: str, question: "Callable[[Agent], Coroutine[Any, Any, _Found]]") -> _Found:
    """Return what an agent over the checkpoint store of `spec` finds in its threads."""
    from agentflow.graph.agent import build_graph
    from agentflow.graph.checkpoints import open_checkpointer

    async def asked() -> _Found:
        async with open_checkpointer(spec) as saver:
            return await question(build_graph(checkpointer=saver))

    return asyncio.run(asked())
