"""What a server that learns keeps: answers, feedback and decisions, in files that are only appended to.

    answers.jsonl      a line for each answered request
    feedback.jsonl     a line for each score
    decisions.jsonl    a line for each decision on a version of the planner, written before it takes effect

The files are the state: a server that starts again reads them and goes on.
"""

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from agentflow.evals.results_store import drop_torn_line, lines_of
from agentflow.evals.run_folder import RunFolderError
from agentflow.tools.coded_error import CodedError
from agentflow.tools.file_lock import lock

MOST_ANSWERS = 100_000
"""Most answers that can still be scored; older ones are forgotten, and stay in the file."""

Reward = Annotated[float, Field(ge=0, le=1)]


class JournalError(CodedError, RuntimeError):
    """The folder cannot be used; `str()` is one line with the reason and the remedy."""


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    time: datetime = Field(default_factory=lambda: datetime.now(UTC))


class ServedAnswer(_Line):
    """A request and its answer."""

    id: str
    version: int
    """Version of the planner."""
    question: str
    """The question as one that stands by itself, as the analyst restated it."""
    answer: str
    status: str
    turns: int
    seconds: float


class Feedback(_Line):
    """A score of an answer."""

    id: str
    score: Reward
    answer: str = ""
    """The right answer, if a person gave it."""


class VersionDecision(_Line):
    """A decision on a version of the planner."""

    version: int
    outcome: Literal["promoted", "rejected", "failed", "trial", "rolled_back"]
    """`promoted`: it answers from now on. `rejected`: it lost on the held-out tasks, and answers none. `failed`: it was
    not made, or cannot be loaded. The last two are of 0.2.0, which tried versions on a share of the requests first."""
    reason: str
    tasks: int = 0
    """Number of tasks that it was trained on."""
    held_out: float | None = None
    """Its accuracy on the held-out tasks."""


Kind = TypeVar("Kind", bound=_Line)


class Journal(Generic[Kind]):
    """A file of lines of one kind."""

    def __init__(self, path: Path, kind: type[Kind]) -> None:
        """Open the file, and lock it until `close`. Raises JournalError."""
        self._path, self._kind = path, kind
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.fdopen(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600), "ab+")
        except OSError as error:
            raise JournalError(f"cannot write to {path.parent} ({error.strerror}); name another folder") from error
        try:
            lock(self._file)
        except BlockingIOError as error:
            self.close()
            raise JournalError(f"another server learns in {path.parent}; name another folder") from error
        drop_torn_line(self._file)

    def read(self) -> list[Kind]:
        """Return all lines. Raises JournalError, and closes the file then."""
        try:
            return list(lines_of(self._path, self._kind, f"a line of {self._path.name}"))
        except RunFolderError as error:
            self.close()
            raise JournalError(str(error)) from error

    def append(self, line: Kind, *, synced: bool = False) -> None:
        """Write a line; if `synced`, it is on the disk when this returns."""
        self._file.write(line.model_dump_json().encode() + b"\n")
        self._file.flush()
        if synced:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Traffic:
    """Answers and their scores."""

    def __init__(self, folder: Path, used: Iterable[str] = ()) -> None:
        """Read the folder; `used` are the ids of answers that were trained on. Raises JournalError."""
        self._answers = Journal(folder / "answers.jsonl", ServedAnswer)
        self._feedback = Journal(folder / "feedback.jsonl", Feedback)
        self.answers = {one.id: one for one in self._answers.read()[-MOST_ANSWERS:]}
        self._scores = {one.id: one for one in self._feedback.read() if one.id in self.answers}
        self._unused = dict.fromkeys(self._scores)
        self.use(used)

    def add(self, answer: ServedAnswer) -> None:
        """Keep an answer."""
        self._answers.append(answer)
        self.answers[answer.id] = answer
        if len(self.answers) > MOST_ANSWERS:
            oldest = next(iter(self.answers))
            del self.answers[oldest]
            self._scores.pop(oldest, None)
            self._unused.pop(oldest, None)

    def score(self, feedback: Feedback) -> None:
        """Keep the score of an answer; a later score counts in place of an earlier one. Raises KeyError."""
        self.answers[feedback.id]
        self._feedback.append(feedback)
        if feedback.id not in self._scores:
            self._unused[feedback.id] = None
        self._scores[feedback.id] = feedback

    @property
    def unused(self) -> list[tuple[ServedAnswer, Feedback]]:
        """Scored answers that were not trained on, in the order in which they were scored."""
        return [(self.answers[id], self._scores[id]) for id in self._unused]

    def use(self, ids: Iterable[str]) -> None:
        """Mark answers as trained on."""
        for id in ids:
            self._unused.pop(id, None)

    def close(self) -> None:
        """Close the files."""
        self._answers.close()
        self._feedback.close()
