"""What every contender does: a rollout of some model calls, each but the last followed by a tool call.

A contender is a module of `benchmarks.speed.contenders`. It runs in a venv of its own, which has neither AgentFlow nor
anything else of ours, so that this file and `drive` need the standard library alone.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

QUESTION = "In which year was the library of Fupoz founded?"
ANSWER = "1907"
"""What the server's last reply says, and no other."""

Rollout = Callable[[], Awaitable[str]]
"""Runs one rollout; its answer."""


@dataclass(frozen=True)
class Work:
    """One load."""

    server: str
    """Address of `benchmarks.speed.server`."""
    calls: int = 5
    """Model calls of a rollout, the answer included."""
    delay: int = 0
    """Milliseconds that the model takes for a call."""
    concurrent: int = 1
    rollouts: int = 50
    memory: int = 1600
    """Characters that the tool results of a rollout have together."""
    tools: int = 1
    """How many the model is offered. It calls the first."""

    def url(self, way: str) -> str:
        """The server's address for a client; what `way` is, `server` says."""
        return f"{self.server}/{self.delay}/{way}/{self.calls}/v1"

    @property
    def result(self) -> str:
        """What a tool call returns, where each call of the model but the last leads to one."""
        return self.result_of(self.calls - 1)

    def result_of(self, tool_calls: int) -> str:
        """What a tool call returns if there are so many."""
        sentence = "The library of Fupoz holds 4,210 volumes, most of them on tides, bees and the making of paper. "
        size = self.memory // max(tool_calls, 1)
        return (sentence * (size // len(sentence) + 1))[:size]

    @property
    def names(self) -> list[str]:
        """Names of the tools."""
        return ["look_up", *(f"look_up_{number}" for number in range(2, self.tools + 1))]


def tool_schemas(work: Work) -> list[dict[str, object]]:
    """The tools as OpenAI's API takes them."""
    arguments = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    description = "Looks something up."
    return [
        {"type": "function", "function": {"name": name, "description": description, "parameters": arguments}}
        for name in work.names
    ]
