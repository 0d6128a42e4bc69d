"""Checks an exported policy against log-probabilities that the run recorded.

A run keeps every token of a few groups of each step with its log-probability under the weights after the step's update
(`agentflow.rl.tokens`). These are the weights that the step's checkpoint holds, so an export must give the same tokens
the same log-probabilities, up to rounding. Where a run kept none, what was sampled from the same weights serves: the
rollouts of the validation after the step, and of the next step.

The model is read by transformers from the exported files alone, so that a fault of what wrote them cannot hide.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentflow.rl.replay_log import ReplayLogs, as_reply
from agentflow.rl.tokens import unpacked
from agentflow.rl.training_log import TOKENS, TrainingLog, token_file

TOLERANCE = 0.1
"""Root mean square of the differences, in nats, up to which two computations of the same weights may disagree. Halving
the micro model's weights makes a thousandth; a trainer that computes in bfloat16 is further off."""

MOST = 8192
"""Tokens, prompts included, that are computed; at least one row."""


@dataclass
class Recorded:
    """Sampled tokens and their log-probabilities after the checkpoint's step, and before its update where known."""

    ids: list[int]
    places: list[int] = field(default_factory=list)
    after: list[float] = field(default_factory=list)
    before: list[float] = field(default_factory=list)

    def add(self, start: int, after: Sequence[float | None], before: Sequence[float | None] | None = None) -> None:
        """Adds the tokens of a call, which begin at `start`."""
        for place, (new, old) in enumerate(zip(after, before or [None] * len(after), strict=True), start):
            if new is None or (before and old is None):
                continue
            self.places.append(place)
            self.after.append(new)
            self.before += [] if old is None else [old]


@dataclass(frozen=True)
class Checked:
    """How far an exported policy is from what was recorded: root mean squares of differences, in nats."""

    source: str
    tokens: int
    after: float
    """From the log-probabilities of the weights that were to be exported."""
    before: float | None
    """From those before the last update."""

    @property
    def same(self) -> bool:
        """Whether the export may be what was trained."""
        return self.after <= TOLERANCE and (self.before is None or self.after <= 1.1 * self.before)

    def __str__(self) -> str:
        """One line for the terminal."""
        beside = "" if self.before is None else f", {self.before:.2g} from those before the step's update"
        return f"{self.after:.2g} nats from the log-probabilities of {self.tokens} tokens ({self.source}){beside}"


def check(folder: Path, run: Path, step: int) -> Checked | None:
    """Compares the model in `folder` with what `run` recorded of `step`'s weights; None where it recorded nothing."""
    settings = run / "settings.json"
    if not settings.is_file():
        return None
    temperatures = json.loads(settings.read_bytes())
    sources = _sources(TrainingLog(run), step, temperatures["temperature"], temperatures["validation_temperature"])
    for source, temperature, rows in sources:
        known = sorted((row for row in rows if row.places), key=lambda row: len(row.ids))
        if known:
            return _compared(folder, source, temperature, known)
    return None


def _sources(
    log: TrainingLog, step: int, temperature: float, validation: float
) -> Iterator[tuple[str, float, list[Recorded]]]:
    """What may have been recorded, from the most telling, with the temperature that it was sampled at."""
    yield f"tokens of step {step}", temperature, _of_tokens(log, step)
    yield f"rollouts of step {step + 1}", temperature, _of_log(log.replay_log_of(step + 1, "train"), step)
    if validation:  # what servers report at temperature 0 differs
        yield f"validation after step {step}", validation, _of_log(log.replay_log_of(step, "test"), step)


def _of_tokens(log: TrainingLog, step: int) -> list[Recorded]:
    path = log.out / TOKENS / token_file(step)
    found = unpacked(path.read_bytes()) if path.is_file() else None
    rows = []
    for row in found.rows if found else ():
        rows.append(recorded := Recorded(row.ids))
        for call in row.calls:
            if call.updated is not None:
                recorded.add(call.start, call.updated, call.trainer)
    return rows


def _of_log(path: Path, version: int) -> list[Recorded]:
    """The calls of the policy that weights of `version` answered."""
    rows = []
    for told in ReplayLogs(path, live=False):
        if told.kind == "policy" and told.answer["weights_version"] == version:
            reply = as_reply(told.answer)
            rows.append(recorded := Recorded([*reply.prompt_ids, *reply.token_ids]))
            recorded.add(len(reply.prompt_ids), reply.logprobs)
    return rows


def _compared(folder: Path, source: str, temperature: float, rows: Sequence[Recorded]) -> Checked:
    after: list[float] = []
    before: list[float] = []
    computed = 0
    for row, found in zip(rows, _log_probs(folder, rows, temperature), strict=False):
        after += [ours - theirs for ours, theirs in zip(found, row.after, strict=True)]
        before += [ours - theirs for ours, theirs in zip(found, row.before, strict=True)] if row.before else []
        computed += len(row.ids)
        if computed > MOST:
            break
    return Checked(source, len(after), _rms(after), _rms(before) if before else None)


def _log_probs(folder: Path, rows: Sequence[Recorded], temperature: float) -> Iterator[list[float]]:
    """Of each row's sampled tokens, by the model in `folder`."""
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    kind = torch.float32 if device == "cpu" else "auto"
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=kind)
    model.to(device)
    for row in rows:
        ids = torch.tensor([row.ids], device=device)
        places = torch.tensor(row.places, device=device)
        with torch.inference_mode():
            # The logits of a token stand at the token before it.
            logits = model(input_ids=ids, logits_to_keep=places - 1).logits[0].float() / temperature
            chosen = logits.log_softmax(-1).gather(-1, ids[0, places].unsqueeze(-1))
        yield chosen.squeeze(-1).tolist()


def _rms(values: Sequence[float]) -> float:
    return math.sqrt(sum(value * value for value in values) / len(values))
