"""Later decisions on samples that ended, in rulings.jsonl: by a corrected rule, by judges or by a person.

All rulings are kept. The effective decision is derived whenever the folder is read: a person overrides the rule, the
rule overrides the judges, and of several judges the majority decides.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from agentflow.evals.scorers.score import Decision

JUDGE, PERSON = "judge", "person"
"""Values of `Ruling.decided_by` other than the name of a rule."""


class Ruling(BaseModel):
    """A decision on one sample, with its author."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    benchmark: str
    id: str
    """Id of the task."""
    sample: int = Field(ge=0)
    answer: str
    """Hash of the answer that was judged. If the sample is run again, the ruling does not apply to the new answer."""
    decision: Decision
    decided_by: str
    """The rule, JUDGE or PERSON."""
    by: str
    """Version of the program, spec of the judge with a hash of its prompts, or name of the person."""
    why: str = ""
    """A person's reason."""
    at: AwareDatetime
    metrics: dict[str, float] = {}

    @property
    def key(self) -> tuple[str, str, int]:
        """The record that it is on, as `Record.key`."""
        return self.benchmark, self.id, self.sample

    def is_same(self, other: Self) -> bool:
        """Return whether `other` has the same decision and metrics."""
        return (self.decision, self.metrics) == (other.decision, other.metrics)


def answer_hash(answer: str) -> str:
    """Return the hash of an answer: 16 hexadecimal digits."""
    return hashlib.sha256(answer.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def settled(rulings: Sequence[Ruling]) -> tuple[Decision, str]:
    """Return the effective decision and its author. `rulings` are all rulings on one sample, oldest first."""
    if ruling := latest(rulings, PERSON):
        return ruling.decision, f"{PERSON}: {ruling.by}"
    rule = latest(rulings, "")
    if rule and rule.decision != Decision.UNDECIDED:
        return rule.decision, rule.decided_by
    judges = {one.by: one.decision for one in rulings if one.decided_by == JUDGE}
    for decision in (Decision.CORRECT, Decision.INCORRECT):
        number = sum(one == decision for one in judges.values())
        if 2 * number > len(judges):
            return decision, JUDGE if len(judges) == 1 else f"{number} of {len(judges)} judges"
    return Decision.UNDECIDED, "the judges do not agree" if judges else rule.decided_by if rule else "no rule"


def latest(rulings: Iterable[Ruling], kind: str) -> Ruling | None:
    """Return the last ruling of a kind: PERSON, JUDGE, or "" for a rule. None if there is none."""
    found = [one for one in rulings if (one.decided_by if one.decided_by in (JUDGE, PERSON) else "") == kind]
    return found[-1] if found else None
