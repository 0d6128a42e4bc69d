"""Events of a run under way: a module starts, a turn has ended, the answer is being written."""

from collections.abc import Awaitable, Callable

from pydantic import BaseModel, ConfigDict

from agentflow.graph.run.trace import TraceTurn


class Started(BaseModel):
    """Event: a module starts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    module: str
    turn: int
    """Number of the turn, from 1."""
    tool: str = ""
    """Name of the tool that the executor is about to call."""


class Restated(BaseModel):
    """Event: the question refers to an earlier exchange, and is read as one that stands by itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    question: str


class Writing(BaseModel):
    """Event: the answer is being written."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str
    """The answer so far, as a chat shows it."""


Event = Started | TraceTurn | Restated | Writing
OnEvent = Callable[[Event], Awaitable[None]]
