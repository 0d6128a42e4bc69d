"""The tokens of a step under inspection: what a training run keeps of every token of a few groups.

Of each sampled token there are three log-probabilities, all of the same token after the same tokens:

    rollout    by the engine that sampled it, under the weights before the step's update
    trainer    by the engine that trains, under the same weights
    updated    by the engine that trains, under the weights after the step's last update

    drift = trainer - rollout       what two engines make of the same weights: rounding, kernels, a fault
    ratio = exp(updated - old)      what the update did to the token; old is what the loss divides by

`old` is the trainer's, or the rollout's where the loss takes those (`algorithm.rollout_correction.bypass_mode`). Then
nothing of the trainer's is known before the update, and it is computed for these rows alone.

A file is gzipped JSON lines, the first of which is of the step, each other of a row. A prompt that a group's rows share
costs little in it.
"""

import gzip
import math
import zlib
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from agentflow.rl.packing import PrefixMismatch

LARGEST = 64 << 20
"""Most bytes that a file may unfold to."""

Logprobs = list[float | None]
"""Of each token; None where it is no number."""


class Sampled(BaseModel):
    """The tokens of one model call. Invariant: all lists have the same length."""

    model_config = ConfigDict(allow_inf_nan=False)

    start: int
    """Where they begin in the row's ids."""
    node: str
    turn: int
    """As `agentflow.rl.calls.Call.turn`."""
    mask: list[Literal[0, 1]]
    """1 where a token is trained on. A rollout that is left out has none."""
    advantage: float | None
    """Of each of them; None where the rollout is left out."""
    weight: float | None
    """Of each of them in the objective; over all tokens of a step they sum to 1. None as above."""
    rollout: Logprobs
    trainer: Logprobs | None = None
    """None where the update had nothing to do with the row: its rollout is left out, or all its advantages are 0
    and there is no KL term."""
    updated: Logprobs | None = None

    @model_validator(mode="after")
    def _aligned(self) -> "Sampled":
        optional = [values for values in (self.trainer, self.updated) if values is not None]
        if any(len(values) != len(self.mask) for values in (self.rollout, *optional)):
            raise ValueError("the lists differ in length")
        return self


class TokenRow(BaseModel):
    """A row that was, or could have been, trained on: some calls of a trajectory, or all of them."""

    model_config = ConfigDict(allow_inf_nan=False)

    task: str
    rollout: str
    """Id of the trajectory, as `agentflow.rl.rollout.RolloutRecord.id`."""
    status: str
    reward: float | None
    ids: list[int]
    calls: list[Sampled]
    """In the order of the ids; what is between them was given to the model."""
    mismatch: PrefixMismatch | None = None
    """Why it is not part of the row before; None of a trajectory's first."""

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
    """What is kept of a step."""

    model_config = ConfigDict(allow_inf_nan=False)

    step: int
    old: Literal["rollout", "trainer"]
    """Whose log-probability the loss divides by."""
    clip: tuple[float, float]
    """How far below and above 1 a ratio may be before it is clipped."""
    tasks: list[str]
    """One for each group."""
    pieces: dict[int, str]
    """The text of each token that occurs."""
    rows: list[TokenRow] = []


def packed(step: TokenStep) -> bytes:
    """As a file."""
    lines = [step.model_dump_json(exclude={"rows"}), *(row.model_dump_json() for row in step.rows)]
    return gzip.compress("".join(line + "\n" for line in lines).encode(), mtime=0)


def unpacked(file: bytes, *, rows: bool = True) -> TokenStep | None:
    """What `packed` made a file of, without its rows if they are not asked for.

    Lines that cannot be read, as where the file is torn, are passed over; None where that is the first.
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
    """Log-probabilities as they are kept: to a millionth of a nat."""
    return [round(value, 6) if math.isfinite(value) else None for value in values]
