"""Hashes of what a step was trained on, read from its records in the run folder.

A hash for each part names what was altered. The parts are hashed as they are recorded, packed token ids included, so
that nothing of an unchecked file is unpacked.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from agentflow.evals.passport.collect import file_sha256
from agentflow.rl.certificate.canonical import canonical
from agentflow.rl.replay_log import Entry, ReplayLogs
from agentflow.rl.rollout import RolloutRecord
from agentflow.rl.trainable import Split
from agentflow.rl.training_log import TrainingLog

TOKENS, LOGPROBS = ("prompt_ids", "token_ids"), ("logprobs",)
"""Fields of a recorded response of the policy."""


class BatchHashes(BaseModel):
    """SHA-256 of each part of the batch of a step, or of the validation after it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tasks: str
    """Names of the rollouts: task and number."""
    tokens: str
    """Token ids of every prompt and reply of the policy."""
    logprobs: str
    """Log-probabilities of the replies' tokens."""
    rewards: str
    """Status and reward of every rollout."""
    masks: str
    """Which tokens are trained on, with their advantages: number of prompt and reply tokens of every call."""
    responses: str
    """Everything else that rollouts were told: other models, tools, judges, and the policy's replies as texts."""
    rollouts: str
    """The file of the rollouts."""


def batch_hashes(log: TrainingLog, step: int, split: Split) -> BatchHashes:
    """Return the hashes of a step's records; a part that was not recorded has the hash of nothing."""
    by_rollout: dict[str, list[Entry]] = defaultdict(list)
    for entry in ReplayLogs(log.replay_log_of(step, split), live=False):
        by_rollout[entry.rollout].append(entry)
    entries = [entry for name in sorted(by_rollout) for entry in by_rollout[name]]
    records = sorted(log.records(step, split), key=lambda record: record.id)
    return BatchHashes(
        tasks=_hash([*([name] for name in sorted(by_rollout)), *([record.id] for record in records)]),
        tokens=_hash(_policy(entries, TOKENS)),
        logprobs=_hash(_policy(entries, LOGPROBS)),
        rewards=_hash([*_ends(entries), *([record.id, record.outcome, record.reward] for record in records)]),
        masks=_hash(map(_mask, records)),
        responses=_hash(_others(entries)),
        rollouts=_file(log.path_of(step, split)),
    )


def _policy(entries: Iterable[Entry], fields: Iterable[str]) -> Iterator[object]:
    for entry in entries:
        if entry.kind == "policy":
            yield [entry.rollout, *(entry.answer.get(field) for field in fields)]


def _ends(entries: Iterable[Entry]) -> Iterator[object]:
    return ([entry.rollout, entry.answer] for entry in entries if entry.kind == "end")


def _others(entries: Iterable[Entry]) -> Iterator[object]:
    for entry in entries:
        if entry.kind != "end":
            left_out = {*TOKENS, *LOGPROBS} if entry.kind == "policy" else set()
            answer = {name: value for name, value in entry.answer.items() if name not in left_out}
            yield [entry.rollout, entry.kind, entry.request, answer]


def _mask(record: RolloutRecord) -> object:
    calls = [[call.policy, call.prompt_tokens, call.sampled_tokens, call.advantage] for call in record.calls]
    return [record.id, calls]


def _hash(lines: Iterable[object]) -> str:
    digest = hashlib.sha256()
    for line in lines:
        digest.update(canonical(line) + b"\n")
    return digest.hexdigest()


def _file(path: Path) -> str:
    return file_sha256(path) if path.is_file() else hashlib.sha256().hexdigest()
