"""The work of every contender: a rollout of several model calls, each but the last followed by a tool call.

A contender is a function of `benchmarks.speed.contenders`. It runs in its own venv, which lacks AgentFlow and the rest
of this repository, so this file and `drive` use the standard library only.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

QUESTION = "In which year was the library of Fupoz founded?"
ANSWER = "1907"
"""Content of the server's last reply, and of no other."""

Rollout = Callable[[], Awaitable[str]]
"""Runs one rollout and returns its answer."""

TOOL: dict[str, object] = {
    "type": "function",
    "function": {
        "name": "look_up",
        "description": "Looks something up.",
        "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    },
}
"""The tool that the model calls, in the format of OpenAI's API."""


@dataclass(frozen=True)
class Work:
    """One load."""

    server: str
    """Address of `benchmarks.speed.server`."""
    calls: int = 5
    """Model calls of a rollout, including the answer."""
    delay: int = 0
    """Milliseconds per model call."""
    concurrent: int = 1
    rollouts: int = 50
    memory: int = 1600
    """Characters of all tool results of a rollout."""

    def url(self, way: str) -> str:
        """Return the server's address for a client; `benchmarks.speed.server` explains `way`."""
        return f"{self.server}/{self.delay}/{way}/{self.calls}/v1"

    @property
    def result(self) -> str:
        """Return the result of a tool call, if each model call but the last leads to one."""
        return self.result_of(self.calls - 1)

    def result_of(self, tool_calls: int) -> str:
        """Return the result of a tool call in a rollout with that many calls."""
        sentence = "The library of Fupoz holds 4,210 volumes, most of them on tides, bees and the making of paper. "
        size = self.memory // max(tool_calls, 1)
        return (sentence * (size // len(sentence) + 1))[:size]
