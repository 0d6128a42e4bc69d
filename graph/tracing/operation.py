"""Operations of a run: a tree that all sinks read."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol
from uuid import UUID

from langchain_core.messages import AIMessage, BaseMessage

REFUSALS = (ValueError, LookupError, ArithmeticError)
"""What is raised for a value that is not taken, as far as a class can tell: for what the model said or chose."""

Kind = Literal["run", "module", "model_call", "tool_call", "step"]


@dataclass(eq=False)
class Operation:
    """A run of a graph, a node of it, a call of a model or a tool, or a step: any other LangChain run."""

    kind: Kind
    name: str
    """Name of the graph, node, model or tool."""
    id: UUID
    """LangChain's run id."""
    caller: "Operation | None" = None
    """The operation that contains this one, one level up."""
    clock: float = field(default_factory=time.perf_counter)
    """Monotonic time of the start in seconds."""
    seconds: float = 0.0
    """Duration; 0 until the operation ends."""
    module: str = ""
    """Module that the operation belongs to: the tag of a model call, else the name of the innermost node."""
    path: tuple[str, ...] = ()
    """Names of the nodes and named subgraphs around the operation, the outermost first; a node's own name is last."""
    turn: int | None = None
    """Number of the turn from 1; None outside turns."""
    error: str = ""
    """Class of the failure: an `ErrorClass` or the name of an exception; "" without one."""
    message: str = ""
    """Text of the exception. It may hold secrets."""
    refused: bool = False
    """Whether the exception is one of `REFUSALS`."""
    prompt: Sequence[BaseMessage] = ()
    """Messages that a model call was asked with."""
    replies: Sequence[AIMessage] = ()
    """Replies of a model call that ended."""

    task: str = ""
    """Name that the attempts at one piece of work share, among what the caller contains."""
    attempt: int = 0
    """Number of the attempt at `task`, from 0."""
    attempts: dict[str, int] = field(default_factory=dict)
    """Number of the latest attempt at each task in this operation."""
    parts: dict[UUID, "Operation"] = field(default_factory=dict)
    """Operations under way inside this one, one level down."""

    @property
    def parent(self) -> "Operation | None":
        """Return the innermost operation around this one that is not a step."""
        found = self.caller
        while found is not None and found.kind == "step":
            found = found.caller
        return found

    @property
    def given_up(self) -> "Operation | None":
        """Return the attempt that the operation belongs to, if that was started again.

        A node with a `RetryPolicy` that fails starts again, as does a runnable made by `with_retry`. An error alone
        gives nothing up: where a node catches an exception, or `with_fallbacks` tries something else, what the failed
        part did led to the outcome.
        """
        if self.caller is None:
            return None
        return self if self.attempt < self.caller.attempts.get(self.task, 0) else self.caller.given_up


class Sink(Protocol):
    """Receiver of operations, steps left out. Both methods are called on any thread and return at once."""

    def begin(self, operation: Operation) -> None:
        """Receive an operation that begins."""

    def end(self, operation: Operation) -> None:
        """Receive an operation that has ended, after all its parts."""
