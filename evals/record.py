"""The folder of an evaluation: settings.json, and a record per sample in traces.jsonl.

The denominator is in the settings: a task without a record counts as wrong, like one whose run failed.
"""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from agentflow.evals.run_folder import RunSettings
from agentflow.evals.scorers.score import Decision, Score
from agentflow.graph.context import Context
from agentflow.graph.run.cost import Price
from agentflow.graph.run.trace import Trace

Key = tuple[str, str, int]
"""Benchmark, id of the task, number of the sample."""

CRASH = "crash"
"""`Record.decided_by` of a run that failed."""
NO_PLAN = "no plan"
"""`Record.decided_by` of a run that ended without a readable plan."""
JUDGE_FAILED = "judge failed"
"""Prefix of `Record.decided_by` for an answer whose judge failed."""


class Record(Trace):
    """A scored trace: one sample of one task, a line of traces.jsonl."""

    benchmark: str
    sample: int = Field(default=0, ge=0)
    """Number of the sample, where a task is run in several epochs."""
    decision: Decision
    """Only "correct" counts as correct; a run that failed is incorrect."""
    decided_by: str
    """The rule, "judge", CRASH, or a reason that begins with JUDGE_FAILED; for an undecided answer, the doubt."""
    metrics: dict[str, float] = Field(default_factory=dict)
    """Further metrics of the benchmark's own script, each 0 to 1: "em", "f1", "judge"."""

    @classmethod
    def of(cls, trace: Trace, benchmark: str, sample: int, score: Score) -> Self:
        """The record of a trace and its score."""
        scored = {"decision": score.decision, "decided_by": score.decided_by, "metrics": dict(score.metrics)}
        return cls(**trace.own_fields, benchmark=benchmark, sample=sample, **scored)

    @property
    def key(self) -> Key:
        """Unique in the folder."""
        return self.benchmark, self.task.id, self.sample

    @property
    def correct(self) -> bool:
        """True if the record counts as correct."""
        return self.decision == Decision.CORRECT

    @property
    def failed(self) -> bool:
        """True if the run failed: a model did not answer, time ran out, or a graph or tool raised.

        A failed record has no scored answer: its decision is INCORRECT, decided by CRASH.
        """
        return self.status == "failed"

    @property
    def scorable(self) -> bool:
        """True if the record has an answer of the agent, which scorers decide on."""
        return not self.failed and self.status != "no_plan"

    @property
    def judge_failed(self) -> bool:
        """True if the answer is undecided because the judge failed."""
        return self.decided_by.startswith(JUDGE_FAILED)


class ToolProvenance(BaseModel):
    """A tool that the agent could call."""

    model: str
    """The language model behind the tool, as named by `agentflow.tools.card`."""
    card: str
    """Hash of the tool card, which is the tool's full description in prompts."""


class Provenance(BaseModel):
    """The program and command that added samples to an evaluation; a change of either adds another entry.

    Fields of earlier versions are ignored.
    """

    at: str
    """Start of the first call, UTC, ISO 8601."""
    call: str
    """The command, quoted for a shell."""
    before: int = Field(default=0, ge=0)
    """Samples that had already ended, which another program or command made."""
    versions: dict[str, str]
    """Versions of packages, Python and the platform by name; "code" is a hash of AgentFlow's own source files."""
    tools: dict[str, ToolProvenance]

    def differences(self, other: "Provenance") -> list[str]:
        """Return the differences from `other`: "langgraph 1.2.2 (1.2.1 before)", "tool stock"."""
        versions = [
            f"{name} {self.versions.get(name, 'absent')} ({other.versions.get(name, 'absent')} before)"
            for name in {**other.versions, **self.versions}
            if self.versions.get(name) != other.versions.get(name)
        ]
        tools = [name for name in {**other.tools, **self.tools} if self.tools.get(name) != other.tools.get(name)]
        return versions + [f"tool {name}" for name in tools]


class Dataset(BaseModel):
    """The tasks of one benchmark that an evaluation runs."""

    model_config = ConfigDict(extra="forbid")

    questions: int = Field(ge=0)
    """Number of tasks: the denominator of one epoch."""
    digest: str
    """Hash of the ids of all tasks before `limit`; detects another file or revision."""


class EvaluationSettings(RunSettings):
    """Settings of an evaluation. `benchmarks`, `epochs` and `provenance` may grow, `prices` may change; the rest holds
    for all records."""

    kind: Literal["evaluation"] = "evaluation"

    benchmarks: dict[str, Dataset]
    epochs: int = Field(default=1, ge=1)
    """Samples of each task."""
    subset: str = ""
    """Subset of the benchmarks; "" for the default of each."""
    file: str = ""
    """Name of the file of tasks, if they are not the benchmark's own."""
    agent: str = "agentflow"
    """"agentflow", or a baseline."""
    context: Context
    """Models per module, tools, limits."""
    timeout: float | None = None
    """Most seconds of one sample; None: only the context's own limits hold."""
    max_tokens: int | None = None
    """Most tokens of one sample, input and output."""
    max_cost: float | None = None
    """Most US dollars of one sample."""
    prices: dict[str, Price] = Field(default_factory=dict)
    """The user's prices by model, by which `max_cost` holds."""
    judge: str = ""
    """Model that decides where rules cannot, and a hash of its prompts; "" for none."""
    checkpoints: dict[str, str] = Field(default_factory=dict)
    """Hash of the weights of every embedded model, by its spec."""
    provenance: list[Provenance] = Field(default_factory=list)
    """Code and inputs of the samples, in order; empty before the first."""

    @property
    def number(self) -> int:
        """Number of samples of all tasks: the denominator."""
        return self.epochs * sum(dataset.questions for dataset in self.benchmarks.values())

    @property
    def planner(self) -> str:
        """The planner's model for tables, after the name of the agent if it is a baseline."""
        spec = self.context.model_name_of("planner")
        return spec if self.agent == "agentflow" else f"{self.agent}: {spec}"
