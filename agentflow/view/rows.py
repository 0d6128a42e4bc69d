"""A trace as a row of a list: what is shown and filtered. The rest stays in the file and is read on request."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agentflow.evals.record import Record
from agentflow.graph.run.trace import Trace
from agentflow.rl.rollout.rollout import RolloutStatus, RolloutTrace
from agentflow.tools.json_codec import model_from_json
from agentflow.view.lines import Place

SHORT = 240
"""Most characters of a text in a row."""


@dataclass(frozen=True, slots=True)
class Row:
    """A trace in a list."""

    place: Place
    key: tuple[Any, ...]
    """Identity of the sample, by which a later line replaces an earlier one; () if lines never do."""
    task: str
    """Identity of the question within the run."""
    outcome: str
    """correct, incorrect, undecided or failed; without a score, the status of the run."""
    question: str
    answer: str
    gold: str
    family: str
    turns: int
    seconds: float
    tokens: int
    tools: tuple[str, ...]
    """Tool of each turn."""
    errors: tuple[str, ...]
    """Error class of each turn, "" for success."""
    benchmark: str = ""
    sample: int = 0
    step: int = 0
    reward: float | None = None
    """Reward of a rollout, else None."""
    calls: int = 0
    """Number of a rollout's calls that are trained on."""
    status: str = ""
    sampled: int = 0
    """Number of tokens that the policy sampled in a rollout."""
    rollout: str = ""
    """Id of the rollout."""
    advantages: tuple[float, ...] = ()
    """The advantage of each call of a rollout; empty if the rollout is masked."""


def record_row(record: Record, place: Place) -> Row:
    """Return the row of a scored trace."""
    outcome = "failed" if record.failed else str(record.decision)
    own: dict[str, Any] = {"benchmark": record.benchmark, "sample": record.sample}
    return Row(place, record.key, record.task.id, outcome, **trace_cells(record), **own)


def of_record(line: bytes, place: Place) -> Row:
    """Return the row of a line of an evaluation. Raises ValidationError."""
    return record_row(model_from_json(Record, line), place)


def of_rollout(line: bytes, place: Place) -> Row:
    """Return the row of a line of a training. Raises ValidationError."""
    record = model_from_json(RolloutTrace, line)
    rewarded = record.outcome == RolloutStatus.OK
    outcome = "undecided" if record.outcome == RolloutStatus.UNDECIDED else "failed"
    if rewarded:
        outcome = "correct" if record.reward > 0 else "incorrect"
    sampled = sum(call.sampled_tokens for call in record.calls)
    advantages = tuple(call.advantage for call in record.calls if call.advantage is not None)
    return Row(
        place,
        (),
        record.task.id,
        outcome,
        **{**trace_cells(record), "tokens": sampled + sum(call.prompt_tokens for call in record.calls)},
        step=record.step,
        reward=record.reward if rewarded or advantages else None,
        calls=len(record.calls),
        status=str(record.outcome),
        sampled=sampled,
        rollout=record.id,
        advantages=advantages,
    )


def of_trace(line: bytes, place: Place) -> Row:
    """Return the row of a line of `agentflow solve --trace`. Raises ValidationError."""
    trace = model_from_json(Trace, line)
    return Row(place, (), trace.task.question, str(trace.status), **trace_cells(trace))


Reader = Callable[[bytes, Place], Row]


def trace_cells(trace: Trace) -> dict[str, Any]:
    """Return the cells that every trace has."""
    used = trace.usage.models.values()
    return {
        "question": trace.task.question,
        "answer": trace.answer[:SHORT],
        "gold": trace.task.gold,
        "family": trace.task.family,
        "turns": len(trace.turns),
        "seconds": trace.seconds,
        "tokens": sum(one.input_tokens + one.output_tokens for one in used),
        "tools": tuple(turn.tool for turn in trace.turns),
        "errors": tuple(str(turn.result.error or "") for turn in trace.turns),
    }
