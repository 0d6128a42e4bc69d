"""Later decisions on tries that ended, rulings.jsonl: by a mended rule, by judges, by a person. None is ever lost.

What counts is settled anew whenever the folder is read: a person's word before the rule's, the rule's before the
judges', and of several judges the majority.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from agentflow.evals.scorers.score import Decision

JUDGE, PERSON = "judge", "person"
"""`Ruling.decided_by`, where it is no rule."""


class Ruling(BaseModel):
    """A decision on one try, and whose it is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    benchmark: str
    id: str
    """Of the question."""
    sample: int = Field(ge=0)
    answer: str
    """Hash of the answer that it is about: another one, of a try that was run again, has no ruling yet."""
    decision: Decision
    decided_by: str
    """The rule, JUDGE or PERSON."""
    by: str
    """Version of the program, spec of the judge with a hash of its prompts, or name of the person."""
    why: str = ""
    """A person's reason."""
    at: AwareDatetime
    metrics: dict[str, float] = {}

    def is_same(self, other: Self) -> bool:
        """Whether it says what `other` said, whenever that was."""
        return (self.decision, self.metrics) == (other.decision, other.metrics)


def answer_hash(answer: str) -> str:
    """16 hexadecimal digits."""
    return hashlib.sha256(answer.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def settled(rulings: Sequence[Ruling]) -> tuple[Decision, str]:
    """What counts, and by whom it was decided; `rulings` are all on one try, in the order of time."""
    if said := latest(rulings, PERSON):
        return said.decision, f"{PERSON}: {said.by}"
    rule = latest(rulings, "")
    if rule and rule.decision != Decision.UNDECIDED:
        return rule.decision, rule.decided_by
    judges = {ruling.by: ruling.decision for ruling in rulings if ruling.decided_by == JUDGE}
    for decision in (Decision.CORRECT, Decision.INCORRECT):
        number = sum(one == decision for one in judges.values())
        if 2 * number > len(judges):
            return decision, JUDGE if len(judges) == 1 else f"{number} of {len(judges)} judges"
    return Decision.UNDECIDED, "the judges do not agree" if judges else rule.decided_by if rule else "no rule"


def latest(rulings: Iterable[Ruling], kind: str) -> Ruling | None:
    """The last ruling of a kind: PERSON, JUDGE, or "" for the rules."""
    found = [one for one in rulings if (one.decided_by if one.decided_by in (JUDGE, PERSON) else "") == kind]
    return found[-1] if found else None
