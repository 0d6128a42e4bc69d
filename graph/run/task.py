"""A task: a question with the data for its scorer or reward. Benchmarks, training and their files share this model."""

import hashlib
from typing import Any, Self

from pydantic import BaseModel, ConfigDict


class Task(BaseModel):
    """A question for an agent."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    """Unique in its benchmark or training set."""
    question: str
    """The text that the agent gets, options included."""
    gold: str = ""
    """A correct answer; empty if there is none to compare with."""
    family: str = ""
    """The kind of question, for reports."""
    data: dict[str, Any] = {}
    """Further JSON data for the scorer or reward. Benchmarks: `aliases`; `options`, `letter` and `stem`, the question
    without its options; `numbers` and `target`."""

    @classmethod
    def of(cls, question: str, gold: str, family: str = "", **data: Any) -> Self:
        """Create a task whose id is a hash of its content. Raises ValueError without a question or a gold answer."""
        if not question.strip() or not gold.strip():
            raise ValueError("the question or its answer is empty")
        return cls(id=identity(question, gold), question=question, gold=gold, family=family, data=data)

    @classmethod
    def from_question(cls, question: str) -> Self:
        """Create a task that has only a question."""
        return cls(id=identity(question), question=question)

    @property
    def stem(self) -> str:
        """Return the question without its options, by which subsets identify the task."""
        return str(self.data.get("stem", self.question))


def identity(*content: str) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of these texts."""
    return hashlib.sha256("\n".join(content).encode("utf-8", "replace")).hexdigest()[:16]
