"""What is observed of a run: operations that begin and end, and contain one another."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol
from uuid import UUID

Kind = Literal["run", "module", "turn", "model_call", "tool_call"]


@dataclass(eq=False)
class Operation:
    """A run of a graph, a module's part of a turn, a call of a model or of a tool."""

    kind: Kind
    name: str
    """Of the graph, the module, the model, the tool; "" for a turn."""
    id: UUID
    """LangChain's; a turn has that of the module that closed it."""
    started: float
    """Seconds since the epoch."""
    parent: "Operation | None" = None
    ended: float = 0.0
    thread: str = ""
    module: str = ""
    turn: int | None = None
    """From 1; None outside turns."""
    error: str = ""
    """Class of what went wrong: an `ErrorClass`, or the name of an exception; "" if nothing did."""
    message: str = ""
    """What the exception said. It may hold secrets."""
    traceparent: str = ""
    """W3C trace context that a caller has put into the run's metadata."""
    facts: dict[str, Any] = field(default_factory=dict)
    """By the names of OpenTelemetry's GenAI conventions: what was asked for, what was counted."""
    content: dict[str, Callable[[], Any]] = field(default_factory=dict)
    """Likewise: prompts, replies, arguments, results, made only for those who were told to keep them."""

    turn_began: float = 0.0
    """Of a run: when its present turn began."""
    parts: dict[UUID, "Operation"] = field(default_factory=dict)
    """What is under way inside it, one level down."""
    steps: set[UUID] = field(default_factory=set)
    """LangChain runs under way inside it that are no operations."""

    @property
    def root(self) -> "Operation":
        """The outermost operation that this one is part of."""
        return self if self.parent is None else self.parent.root

    @property
    def run(self) -> "Operation":
        """The innermost run that this one is part of; the outermost operation if it is part of none."""
        return self if self.kind == "run" or self.parent is None else self.parent.run


class Sink(Protocol):
    """Where operations go. Both methods are called on any thread, return at once, and raise nothing."""

    def begin(self, operation: Operation) -> None:
        """The operation has begun; not called for turns."""
        ...

    def end(self, operation: Operation) -> None:
        """It is over, and so are all its parts."""
        ...
