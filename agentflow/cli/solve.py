"""`agentflow solve` and `agentflow compare`: one question, one planner or several."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

import typer

from agentflow.cli.attached_files import read_files
from agentflow.cli.group import FAILED, MISUSED, fail, say
from agentflow.cli.observing import observing, prices_of
from agentflow.cli.option_groups import with_groups
from agentflow.cli.options import (
    AsJson,
    AttendedOptions,
    KeepingOptions,
    PlannerlessOptions,
    Prices,
    Tracing,
    agent_of,
)
from agentflow.cli.threads import UNSAVED, RunLocation, check_terminal, found_run
from agentflow.console.approval import answer_of_person
from agentflow.console.runs import RunView, answer_text, print_compared, print_usage
from agentflow.console.terminal import console, print_json

if TYPE_CHECKING:
    from agentflow.graph.agent import Agent
    from agentflow.graph.context import Context
    from agentflow.graph.run.run_events import Event
    from agentflow.graph.run.trace import Trace
    from agentflow.graph.threads import SavedThread

app = typer.Typer()

HINT = "hint: the embedded model knows only Atlas; for other questions name a model: --model openai:gpt-4o-mini"
"""A line for a question that the embedded model could not answer."""


@app.command(epilog='Example: agentflow solve "How many feet are 3 yards?" --max-turns 5')
@with_groups
def solve(
    options: AttendedOptions,
    keeping: KeepingOptions,
    question: Annotated[
        str | None,
        typer.Argument(help="The question, in quotes; - reads it from stdin; without it, --thread is resumed."),
    ] = None,
    file: Annotated[
        list[Path] | None,
        typer.Option("--file", metavar="FILE", help="A text, an image or a PDF for the question; may be repeated."),
    ] = None,
    as_json: AsJson = False,
    usage: Annotated[
        bool,
        typer.Option("--usage", help="Also show tokens and cost of each module.", rich_help_panel="Output"),
    ] = False,
    price: Prices = None,
    tracing: Tracing = None,
) -> None:
    """Answer a question, showing each turn as it happens."""
    from agentflow.graph.run.trace import to_line

    run = RunLocation.of(keeping.checkpoints, keeping.thread)
    if question is None and not run.thread:
        fail("there is no question; write it in quotes after solve, or name a --thread to resume", MISUSED)
    question = None if question is None else checked_question(sys.stdin.read() if question == "-" else question)
    if file and question is None:
        fail("--file belongs to a question; write it in quotes after solve", MISUSED)
    check_writable(keeping.trace)
    context, prices = options.build(), prices_of(price)
    attachments = read_files(file, "python_coder" in context.tools) if file else []
    if context.approve_tools:
        check_terminal(as_json)
    saved = found_run(run, context) if question is None else None
    with asyncio.Runner() as runner:  # its end waits for the threads of tools that were given up
        with ExitStack() as stack:
            stack.enter_context(observing(tracing))
            view = None if as_json else stack.enter_context(RunView(console()))
            question = saved.question if saved else question or ""
            try:
                found = runner.run(_solve(question, context, view, run, saved, attachments))
            except KeyboardInterrupt:
                if run.thread:
                    say(f"the run is saved; resume it with agentflow solve --thread {run.thread}")
                raise
        if as_json:
            typer.echo(to_line(found))
        elif found.answer.strip():
            console().print(answer_text(found))
        if usage:
            print_usage(console(stderr=as_json), found.usage, prices)
        if keeping.trace:
            append_trace(keeping.trace, found)
        if not as_json and beyond_embedded(found, context):
            say(HINT)
        _fail_without_answer(found)


@app.command(
    epilog='Example: agentflow compare "How many minutes are 73 hours?" --planner embedded:seed --planner embedded',
)
@with_groups
def compare(
    question: Annotated[str, typer.Argument(help="The question, in quotes.")],
    planner: Annotated[list[str], typer.Option(metavar="SPEC", help="A planner; give two or more.")],
    options: PlannerlessOptions,
    tracing: Tracing = None,
    as_json: AsJson = False,
) -> None:
    """Answer a question with several planners, side by side."""
    question = checked_question(question)
    if len(set(planner)) < 2:
        fail("give two planners to compare, each with --planner", MISUSED)
    contexts = {spec: options.build(models={"planner": spec}) for spec in planner}
    with observing(tracing), console(stderr=True).status("running the planners"):
        traces = asyncio.run(_compare(question, contexts))
    if as_json:
        print_json(traces)
    else:
        print_compared(console(), traces)
    for spec, found in traces.items():
        if found.failure:
            fail(f"{spec}: {found.error}", _exit_code(found.failure))


async def _compare(question: str, contexts: "dict[str, Context]") -> "dict[str, Trace]":
    traces = await asyncio.gather(*(_solve(question, context, None) for context in contexts.values()))
    return dict(zip(contexts, traces, strict=True))


async def _solve(
    question: str,
    context: "Context",
    view: RunView | None,
    run: RunLocation = UNSAVED,
    saved: "SavedThread | None" = None,
    attachments: Sequence[Mapping[str, Any]] = (),
) -> "Trace":
    from agentflow.graph.checkpoints import open_checkpointer

    async with open_checkpointer(run.spec) as saver:
        agent = agent_of(context, checkpointer=saver)  # by which a run also waits for a person
        trace = await show_run(agent, question, context, view, run.thread or uuid4().hex, saved, attachments)
    if trace.failure and trace.cause == "agent":
        raise trace.failure
    return trace


async def show_run(
    agent: "Agent",
    question: str,
    context: "Context",
    view: RunView | None,
    thread: str,
    saved: "SavedThread | None" = None,
    attachments: Sequence[Mapping[str, Any]] = (),
) -> "Trace":
    """Run a question of a thread, and show it in `view`, where a person also approves calls."""
    from agentflow.graph.run.runner import asking, run
    from agentflow.graph.run.task import Task
    from agentflow.graph.threads import config_of
    from agentflow.nodes.attachments import with_files

    async def decide(asked: Any) -> Any:
        with view.paused() if view else nullcontext():
            return answer_of_person(console(stderr=view is None), asked)

    async def show(event: "Event") -> None:
        if view:
            view.show(event)

    inputs = asking(question, attachments)
    return await run(
        agent,
        Task.from_question(with_files(question, inputs.messages, context)),
        context,
        inputs=inputs,
        config=config_of(thread, context),
        on_event=show,
        streams=view is not None and view.streams,
        saved=saved,
        decide=decide,
    )


def append_trace(path: Path, trace: "Trace") -> None:
    """Append the trace of a run; ends the command if that fails."""
    from agentflow.graph.run.trace import append

    try:
        append(path, trace)
    except OSError as error:
        fail(f"the trace could not be written to {path} ({error.strerror}); make room and try again", FAILED)


def _fail_without_answer(trace: "Trace") -> None:
    """End the command if the run failed or its answer is empty."""
    if trace.failure:
        fail(trace.error, _exit_code(trace.failure))
    if trace.status == "no_plan":
        fail("the planner's model cannot follow the planner's format; see the answer", FAILED)
    if not trace.answer.strip():
        fail("the model gave no answer; try again, or another --model", FAILED)


def _exit_code(failure: Exception) -> int:
    return MISUSED if getattr(failure, "configuration", False) else FAILED


def beyond_embedded(trace: "Trace", context: "Context") -> bool:
    """Return whether the embedded planner could not answer the question, and the answer does not say so."""
    from agentflow.rl.micro.declining import REPLY

    if trace.failure or context.model_name_of("planner").strip().partition(":")[0] != "embedded":
        return False
    return trace.status != "answered" and REPLY not in trace.answer


def checked_question(question: str) -> str:
    """Return the question without surrounding space; ends the command if it is empty or not valid UTF-8."""
    if not question.strip():
        fail("the question is empty; write it in quotes after solve", MISUSED)
    if not question.isascii() and question.encode("utf-8", "replace").decode() != question:
        fail("the question is not valid UTF-8; set the terminal to UTF-8", MISUSED)
    return question.strip()


def check_writable(trace: Path | None) -> None:
    """End the command if a trace cannot be appended to the file."""
    if trace is None:
        return
    try:
        trace.parent.mkdir(parents=True, exist_ok=True)
        trace.open("ab").close()
    except OSError as error:
        fail(f"cannot write to {trace} ({error.strerror}); choose another --trace", MISUSED)
