"""What an evaluation leaves in its folder: `settings.json`, what was asked, `traces.jsonl`, what came of it, and
`rulings.jsonl`, what was decided on that later.

One line of traces.jsonl is one try of one question; `key` tells them apart. The denominator is in the settings: a
question that has no line yet counts as wrong, as one does whose run broke off.
"""

from collections.abc import Sequence
from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

from agentflow.evals.passport.provenance import Provenance
from agentflow.evals.rulings import JUDGE, Ruling, answer_hash, settled
from agentflow.evals.scorers.score import Decision
from agentflow.evals.trace import Trace
from agentflow.graph.context import Context

Key = tuple[str, str, int]
"""Benchmark, id of the question, number of the try."""

CRASH = "crash"
"""`Record.decided_by` where the run broke off."""
JUDGE_FAILED = "judge failed"
"""What `Record.decided_by` begins with where an answer is there and the judge could not be asked about it."""


class Record(BaseModel):
    """A try that ended, one line of traces.jsonl."""

    id: str
    """Of the question, by content; the same in every try."""
    benchmark: str
    family: str
    """What kind of question of the benchmark; "" where it has none."""
    question: str
    gold: str
    sample: int = Field(default=0, ge=0)
    """Number of the try, where each question is asked in several epochs."""
    decision: Decision
    """Only what is correct counts as correct; a run that broke off is incorrect."""
    decided_by: str
    """The rule, "judge", CRASH, or a reason that begins with JUDGE_FAILED; of an undecided answer, what is in doubt."""
    metrics: dict[str, float] = {}
    """What the benchmark's own script reports besides, each 0 to 1: "em", "f1", "judge"."""
    trace: Trace
    rulings: Sequence[Ruling] = Field(default=(), exclude=True)
    """All decisions on it, the first one too, in the order of time, where it was scored again; see `ruled`."""

    @property
    def key(self) -> Key:
        """Tells it from all other records of the folder."""
        return self.benchmark, self.id, self.sample

    def history(self, judge: str, at: datetime) -> list[Ruling]:
        """All decisions on it, this record's own first, as one of `at`; `judge` is whose that is, if a judge's."""
        if self.rulings:
            return list(self.rulings)
        shared = ("benchmark", "id", "sample", "decision", "decided_by", "metrics")
        by = judge if self.decided_by == JUDGE else ""
        given = {name: getattr(self, name) for name in shared}
        return [Ruling(**given, answer=answer_hash(self.trace.answer), by=by, at=at)]

    def ruled(self, later: Sequence[Ruling], judge: str, at: datetime) -> "Record":
        """This record as it counts after further rulings, of which those on another answer do not; see `history`."""
        rulings = self.history(judge, at)
        rulings += [ruling for ruling in later if ruling.answer == rulings[0].answer]
        decision, decided_by = settled(rulings)
        metrics = {name: value for ruling in rulings for name, value in ruling.metrics.items()}
        changed = {"decision": decision, "decided_by": decided_by, "metrics": metrics, "rulings": rulings}
        return self.model_copy(update=changed)

    @property
    def correct(self) -> bool:
        """Whether it counts as correct."""
        return self.decision == Decision.CORRECT

    @property
    def failed(self) -> bool:
        """Whether the run broke off: an endpoint was down, time ran out, or a program has a fault. Not a wrong answer.

        A failed record has no answer that was judged; its decision is INCORRECT, decided by CRASH.
        """
        return self.trace.status == "failed"

    @property
    def judge_failed(self) -> bool:
        """Whether there is an answer and no decision, since the judge did not answer."""
        return self.decided_by.startswith(JUDGE_FAILED)


class Dataset(BaseModel):
    """The questions of one benchmark that were asked."""

    model_config = ConfigDict(extra="forbid")

    questions: int = Field(ge=0)
    """How many: the denominator of one epoch."""
    digest: str
    """Of the ids of all questions that there are to be asked, so that another file or revision is told apart."""


class Settings(BaseModel):
    """What was asked, settings.json. `benchmarks`, `epochs` and `made` may grow; all else holds for every record."""

    model_config = ConfigDict(extra="forbid")

    benchmarks: dict[str, Dataset]
    epochs: int = Field(default=1, ge=1)
    """Tries of each question."""
    subset: str = ""
    """Of the benchmarks; "" is each one's usual one."""
    file: str = ""
    """Name of the file of questions, if they are not the benchmark's own."""
    agent: str = "agentflow"
    """agentflow, direct, react or team."""
    context: Context
    """Models per module, tools, limits."""
    timeout: float | None = None
    """Most seconds of one try; None: only the context's own limits hold."""
    max_tokens: int | None = None
    """Most tokens of one try, read and written."""
    max_cost: float | None = None
    """Most US dollars of one try."""
    judge: str = ""
    """Model that decides what rules do not, and a hash of its prompts; "" if none."""
    checkpoints: dict[str, str] = {}
    """Hash of the weights of every embedded model, by its spec."""
    provenance: list[Provenance] = []
    """By what, in the order of the tries; none in folders of earlier versions, or before the first try."""

    @property
    def number(self) -> int:
        """Tries of all questions: the denominator."""
        return self.epochs * sum(dataset.questions for dataset in self.benchmarks.values())
