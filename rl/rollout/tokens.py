"""File format of inspected tokens: per-token data of a few groups of a training step.

Each sampled token has three log-probabilities, all with the same preceding tokens:

    rollout    by the sampling engine, under the weights before the step's update
    trainer    by the training engine, under the same weights
    updated    by the training engine, under the weights after the step's last update

    drift = trainer - rollout       difference of the two engines under the same weights: rounding, kernels, a fault
    ratio = exp(updated - old)      effect of the update on the token; old is the denominator in the loss

`old` is the trainer's value, or the rollout's if the loss uses that (`algorithm.rollout_correction.bypass_mode`). In
that mode training does not compute the trainer's values before the update, so they are computed for these rows alone.

A file holds gzipped JSON lines: the first describes the step, each other one a row. A prompt that the rows of a group
share compresses well.
"""

import gzip
import math
import zlib
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from agentflow.rl.rollout.packing import PrefixMismatch

LARGEST = 64 << 20
"""Maximum size of a decompressed file, in bytes."""

Logprobs = list[float | None]
"""Log-probability of each token; None if it is not finite."""


class Sampled(BaseModel):
    """Sampled tokens of one model call. Invariant: all lists have the same length."""

    model_config = ConfigDict(allow_inf_nan=False)

    start: int
    """Position of the first token in the row's ids."""
    node: str
    turn: int
    """Number of the call in its rollout, as in `agentflow.rl.rollout.calls.Call.turn`."""
    mask: list[Literal[0, 1]]
    """1 for tokens that are trained on; all 0 if the rollout is excluded from training."""
    advantage: float | None
    """Advantage of each token; None if the rollout is excluded from training."""
    weight: float | None
    """Weight of each token in the objective; those of all tokens of a step sum to 1. None if excluded."""
    rollout: Logprobs
    trainer: Logprobs | None = None
    """None if the update did not use the row: its rollout is excluded, or all its advantages are 0 and there is no
    KL or entropy term."""
    updated: Logprobs | None = None

    @model_validator(mode="after")
    def _aligned(self) -> "Sampled":
        optional = [values for values in (self.trainer, self.updated) if values is not None]
        if any(len(values) != len(self.mask) for values in (self.rollout, *optional)):
            raise ValueError("the lists differ in length")
        return self


class TokenRow(BaseModel):
    """A row with some or all calls of a trajectory, whether or not it was trained on."""

    model_config = ConfigDict(allow_inf_nan=False)

    task: str
    rollout: str
    """Id of the trajectory, as `agentflow.rl.rollout.rollout.RolloutTrace.id`."""
    status: str
    reward: float | None
    ids: list[int]
    calls: list[Sampled]
    """Sampled spans in the order of the ids; tokens between them are prompt tokens."""
    mismatch: PrefixMismatch | None = None
    """Reason why the row does not continue an earlier one; None for the first row of a trajectory."""

    @model_validator(mode="after")
    def _inside(self) -> "TokenRow":
        end = 0
        for call in self.calls:
            if call.start < end:
                raise ValueError("the calls overlap")
            end = call.start + len(call.mask)
        if end > len(self.ids):
            raise ValueError("a call reaches beyond the row")
        return self


class TokenStep(BaseModel):
    """Inspected tokens of a step."""

    model_config = ConfigDict(allow_inf_nan=False)

    step: int
    old: Literal["rollout", "trainer"]
    """Source of the old log-probabilities in the loss."""
    clip: tuple[float, float]
    """Distances below and above 1 at which the ratio is clipped."""
    tasks: list[str]
    """Task id of each group."""
    pieces: dict[int, str]
    """Text of each token that occurs, by id."""
    rows: list[TokenRow] = []


def differences(step: TokenStep) -> dict[str, float]:
    """Return the mean sizes, in nats, of drift = trainer - rollout and of logprob_change = updated - trainer.

    They are over the tokens that are trained on. Tokens of which a value is unknown are left out; a mean of none is
    absent.
    """
    drift, change = list[float](), list[float]()
    for call in (call for row in step.rows for call in row.calls):
        unknown: Logprobs = [None] * len(call.mask)
        columns = zip(call.mask, call.rollout, call.trainer or unknown, call.updated or unknown, strict=True)
        for trained, rollout, trainer, updated in columns:
            if trained and trainer is not None:
                drift += [] if rollout is None else [abs(trainer - rollout)]
                change += [] if updated is None else [abs(updated - trainer)]
    return {
        name: round(sum(each) / len(each), 6) for name, each in (("drift", drift), ("logprob_change", change)) if each
    }


def packed(step: TokenStep) -> bytes:
    """Serialise a step to the bytes of its file."""
    lines = [step.model_dump_json(exclude={"rows"}), *(row.model_dump_json() for row in step.rows)]
    return gzip.compress("".join(line + "\n" for line in lines).encode(), mtime=0)


def unpacked(file: bytes, *, rows: bool = True) -> TokenStep | None:
    """Read a file that `packed` wrote; `rows=False` omits the rows.

    Unreadable lines, as in a truncated file, are skipped. Returns None if the first line is unreadable.
    """
    try:
        head, *lines = zlib.decompressobj(wbits=31).decompress(file, LARGEST).split(b"\n")
        step = TokenStep.model_validate_json(head)
    except (zlib.error, ValidationError):
        return None
    for line in lines if rows else ():
        try:
            step.rows.append(TokenRow.model_validate_json(line))
        except ValidationError:
            continue
    return step


def kept(values: Sequence[float]) -> Logprobs:
    """Round log-probabilities to six decimals; None for those that are not finite."""
    return [round(value, 6) if math.isfinite(value) else None for value in values]
