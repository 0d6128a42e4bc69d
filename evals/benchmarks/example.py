"""One question of a benchmark, whatever it came from."""

import hashlib
from typing import Any

from pydantic import BaseModel, ConfigDict


class BenchmarkError(ValueError):
    """A benchmark cannot be used; `str()` is one line that says why and what to do."""


class TokenNeeded(BenchmarkError):
    """A data set is gated, and the user's token is missing or does not open it."""


class Example(BaseModel):
    """A question and what its scorer needs; as JSON it is what a `Task` of training holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    """By content, never by position: 16 hexadecimal digits of SHA-256."""
    question: str
    """As the agent is asked, options included."""
    gold: str
    """An answer that is correct."""
    family: str = ""
    """What kind of question it is, for reports."""
    data: dict[str, Any] = {}
    """By the benchmark: `aliases`; `options`, `letter` and `stem`, the question alone; `numbers` and `target`."""

    @property
    def stem(self) -> str:
        """The question as the data set has it: what subsets are found by."""
        return str(self.data.get("stem", self.question))


def example(question: str, gold: str, family: str = "", **data: Any) -> Example:
    """An example with its id. Raises ValueError if it asks nothing or has no gold answer."""
    if not question.strip() or not gold.strip():
        raise ValueError("the question or its answer is empty")
    return Example(id=identity(question, gold), question=question, gold=gold, family=family, data=data)


def identity(*content: str) -> str:
    """The id of what consists of these texts."""
    return hashlib.sha256("\n".join(content).encode("utf-8", "replace")).hexdigest()[:16]
