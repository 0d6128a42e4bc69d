"""The agent as a tool of another agent, which takes a question and returns the answer."""

from collections.abc import Sequence
from typing import Annotated

from langchain_core.tools import BaseTool, StructuredTool, ToolException

from agentflow.graph.agent import build_graph, in_background
from agentflow.graph.context import Context
from agentflow.graph.run.runner import run
from agentflow.graph.run.task import Task
from agentflow.graph.run.trace import Trace

DESCRIPTION = (
    "Answers a question that takes several steps: it plans, looks things up, computes, checks what it found, and "
    "returns the answer. Give the whole question with all that it needs; nothing is remembered between calls."
)

UNFINISHED = {
    "out_of_turns": "it ran out of turns",
    "out_of_time": "it ran out of time",
    "no_plan": "no plan could be read",
}
"""Notes for answers that no verifier has approved."""


def build_tool(
    context: Context | None = None,
    tools: Sequence[BaseTool | str] = (),
    *,
    name: str = "agentflow",
    description: str = DESCRIPTION,
) -> BaseTool:
    """Return the agent as a LangChain tool `name(question) -> answer`, for `invoke` and `ainvoke`.

    Args:
        context: Settings of its runs, independent of the calling agent's context; None takes the defaults.
        tools: As in `build_graph`.
        name: The tool's name for the calling agent's model.
        description: The tool's description for that model.

    A failed run is reported as the tool's output, in a message with status "error", so the calling agent can continue.
    An answer that was not verified has a separate line with a note.

    Raises:
        ValueError: As `build_graph` does.
    """
    graph, settings = build_graph(tools), context or Context()

    def ask(question: Annotated[str, "The question, complete in itself."]) -> str:
        return in_background(aask(question))

    async def aask(question: str) -> str:
        return _answer(await run(graph, Task.from_question(question), settings))

    return StructuredTool.from_function(
        func=ask,
        coroutine=aask,
        name=name,
        description=description,
        handle_tool_error=lambda error: f"{name} failed: {error}",
    )


def _answer(trace: Trace) -> str:
    """Return the answer of a run. Raises ToolException if there is none, and what a bug in the agent raised."""
    if trace.failure and trace.cause == "agent":
        raise trace.failure
    if not trace.answer.strip():
        raise ToolException(trace.error or "the model gave no answer")
    return answer_text(trace)


def answer_text(trace: Trace) -> str:
    """Return the answer for another assistant, with its confidence, and a note if no verifier has approved it."""
    unfinished = UNFINISHED.get(trace.status)
    notes = [f"(Confidence {trace.confidence:.2f}.)"] if trace.confidence is not None else []
    return "\n".join([trace.answer, *notes, *([f"(Not verified: {unfinished}.)"] if unfinished else [])])
