"""Calls with side effects: made once, or said to be uncertain.

A process may be killed at any moment, also in mid-call, and a run that goes on from its last checkpoint repeats the
node that was under way. For a call that changes something outside, that would be a second e-mail. So the executor ends
its step before such a call and leaves a mark in the state; the checkpoint that follows is on disk before the call
begins (`durability="sync"`, the default of `build_graph`). The next step makes the call, if this process wrote the mark
and has not used it yet. A process that finds somebody else's mark was started after a crash: nobody knows how far the
call came, and the result says so.

Without a checkpointer nothing can be gone on with, and there is no mark.
"""

from uuid import uuid4

from langgraph.config import get_config

from agentflow.tools.card import ToolCard
from agentflow.tools.result import ErrorClass, ToolResult


class AtMostOnce:
    """The marks that this process has written and not used."""

    def __init__(self) -> None:
        self._fresh: set[str] = set()

    def mark(self) -> str:
        """A new mark."""
        mark = uuid4().hex
        self._fresh.add(mark)
        return mark

    def use(self, mark: str) -> bool:
        """Whether the call may be made: true once for each mark."""
        fresh = mark in self._fresh
        self._fresh.discard(mark)
        return fresh

    def unused(self, mark: str) -> None:
        """The call was not made after all."""
        self._fresh.add(mark)


def has_checkpointer() -> bool:
    """Whether the run that this is called in can be gone on with later."""
    return bool(get_config()["configurable"].get("__pregel_checkpointer"))


def needs_mark(card: ToolCard) -> bool:
    """Whether a call of the tool must not be repeated unawares."""
    return card.side_effects and has_checkpointer()


def uncertain(tool: str) -> ToolResult:
    """The result of a call that was interrupted."""
    problem = f"the run was interrupted when it called {tool}: the call may have been carried out, and was not repeated"
    return ToolResult.failed(ErrorClass.UNCERTAIN, problem)
