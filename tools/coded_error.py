"""The base of the errors that users see: one line for people, and a code for programs."""

from typing import ClassVar, Literal

Cause = Literal["policy", "tool", "infrastructure", "limit", "person", "agent"]
"""Who or what ends a run early.

- policy: what the trained model wrote, such as a call that a tool refuses, or a conversation that outgrows its context.
- tool: a tool fails at a call that it does not refuse.
- infrastructure: a model, a judge or the sandbox does not do its work.
- limit: the run has taken its time, its tokens or its dollars.
- person: the run waits for somebody, and nobody is there.
- agent: the graph, or a function of it, raises anything else, which is a bug in it.
"""


class CodedError(Exception):
    """An error with several causes; `str()` is one line with the cause and the remedy.

    Attributes:
        code: The cause in snake_case, such as "unknown_provider". It stays when the wording changes. Empty if the class
            has one cause only.
        cause: Who or what ends the run, if this error ends one.
    """

    cause: ClassVar[Cause] = "agent"

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code
