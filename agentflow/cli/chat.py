"""`agentflow chat`: a conversation at the terminal."""

import asyncio
import sys
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import typer

from agentflow.cli.group import FAILED, say
from agentflow.cli.observing import observing
from agentflow.cli.option_groups import with_groups
from agentflow.cli.options import AttendedOptions, KeepingOptions, Tracing, agent_of
from agentflow.cli.solve import HINT, append_trace, beyond_embedded, check_writable, show_run
from agentflow.cli.threads import RunLocation, check_terminal
from agentflow.console.reading import history, read_question
from agentflow.console.runs import RunView, confidence_text, facts_text
from agentflow.console.terminal import console
from agentflow.tools.untrusted_text import clean

if TYPE_CHECKING:
    from agentflow.graph.agent import Agent
    from agentflow.graph.context import Context
    from agentflow.graph.run.trace import Trace

app = typer.Typer()

KEYS = (
    "Enter sends; \\ at the end of a line continues it; Ctrl-C cancels a turn; exit or Ctrl-D ends; "
    "/new begins another conversation; /model says who answers; /help says this again."
)
LEAVING = ("exit", "quit", "/exit", "/quit")
EMBEDDED = (
    "The included model knows everyday sums and Atlas, and declines the rest. Try: How many feet are 3 yards? "
    "How many minutes are 7 hours? "
    "How many years lie between the publication of Song of Fupoz and that of Song of Gotonub?"
)


@app.command(epilog="Example: agentflow chat --model openai:gpt-4o-mini --thread monday")
@with_groups
def chat(options: AttendedOptions, keeping: KeepingOptions, tracing: Tracing = None) -> None:
    """Hold a conversation: each question may refer to what was said before."""
    import platformdirs

    run = RunLocation.of(keeping.checkpoints, keeping.thread)
    check_writable(keeping.trace)
    context = options.build()
    if context.approve_tools:
        check_terminal(False)
    with ExitStack() as stack:
        stack.enter_context(observing(tracing))
        stack.enter_context(history(Path(platformdirs.user_data_dir("agentflow")) / "history"))
        conversation = stack.enter_context(_Conversation(context, run))
        failed = _talk(conversation, keeping.trace)
    if run.thread and sys.stdin.isatty():
        say(f"the conversation is kept; continue it with agentflow chat --thread {conversation.thread}")
    if failed and not sys.stdin.isatty():
        raise typer.Exit(FAILED)


def _talk(conversation: "_Conversation", trace: Path | None) -> bool:
    """Answer questions until the input ends. Return whether one failed."""
    out, failed = console(), False
    if sys.stdin.isatty():
        say(f"{conversation.model} answers. {KEYS}")
        if conversation.context.model == "embedded":
            say(EMBEDDED)
    while True:
        try:
            question = read_question()
        except KeyboardInterrupt:
            say("exit or Ctrl-D ends")  # what was typed is left
            continue
        if question is None or question.lower() in LEAVING:
            if question is None and sys.stdin.isatty():
                out.print()
            return failed
        if question.startswith("/") and len(question.split()) == 1:
            say(_answer_to(question, conversation))
            continue
        view = RunView(out)
        try:
            with view:
                found = conversation.ask(question, view)
        except KeyboardInterrupt:
            say("cancelled; the conversation goes on")
            continue
        failed |= found.failure is not None
        _print(view, found)
        if beyond_embedded(found, conversation.context):
            say(HINT)
        if trace:
            append_trace(trace, found)


def _answer_to(command: str, conversation: "_Conversation") -> str:
    """Carry out a command that is no question. Return the line about it."""
    match command:
        case "/new":
            return f"a new conversation: {conversation.begin()}"
        case "/model":
            return f"{conversation.model} answers"
        case "/help":
            return KEYS
    return f"there is no command {command}; {KEYS}"


def _print(view: RunView, trace: "Trace") -> None:
    if trace.failure:
        say(f"error: {trace.error}")
        return
    out = console()
    out.print(f"\n{clean(view.answer or trace.answer).strip()}{confidence_text(trace)}", style="bold")
    out.print(facts_text(trace))
    out.print()


class _Conversation:
    """An agent with one thread and one event loop for all questions: `with _Conversation(context, run)`."""

    def __init__(self, context: "Context", run: RunLocation) -> None:
        self.context, self._run = context, run
        self.model = context.model_name_of("planner")
        self.thread = run.thread or "this"
        self._runner, self._open = asyncio.Runner(), AsyncExitStack()

    def __enter__(self) -> "_Conversation":
        try:
            self._agent: Agent = self._runner.run(self._start())
        except BaseException:
            self._runner.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._open.aclose())
        self._runner.close()

    def ask(self, question: str, view: RunView) -> "Trace":
        """Return the trace of a question, shown in `view`. Raises KeyboardInterrupt when it is cancelled."""
        return self._runner.run(show_run(self._agent, question, self.context, view, self.thread))

    def begin(self) -> str:
        """Begin another conversation. Return the name of its thread, which no earlier conversation has."""
        self.thread = f"{self._run.thread or 'this'}-{uuid4().hex[:8]}"
        return self.thread

    async def _start(self) -> "Agent":
        from agentflow.graph.checkpoints import open_checkpointer

        saver = await self._open.enter_async_context(open_checkpointer(self._run.spec))
        return agent_of(self.context, checkpointer=saver)
