"""How far a judge can be trusted: it decides on answers of which it is known whether they are correct.

`calibration.jsonl` has questions about an invented country, so that nothing but question and gold answer can help, and
answers of the kinds that judges get wrong: aliases, dates, numbers, negation, refusals, several answers at once, and
text that speaks to the judge. They were written for this by hand. Agreement is Cohen's kappa, since a judge that says
"incorrect" to everything agrees with more than half of the rows.

Source: J. Cohen, "A coefficient of agreement for nominal scales", Educational and Psychological Measurement 20, 1960.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from agentflow.evals.benchmarks.benchmark import AnswerJudge
from agentflow.evals.scorers.score import Decision

ROWS = Path(__file__).parent / "calibration.jsonl"


class CalibrationRow(BaseModel):
    """An answer and whether it is correct."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    """What makes it hard: alias, date, negation, ..."""
    question: str
    gold: str
    answer: str
    correct: bool

    @property
    def decision(self) -> Decision:
        """What a judge ought to say."""
        return Decision.CORRECT if self.correct else Decision.INCORRECT


@dataclass(frozen=True)
class Calibration:
    """What a judge said to a list of rows."""

    rows: Sequence[CalibrationRow]
    decisions: Sequence[Decision]

    @property
    def kappa(self) -> float:
        """Cohen's kappa of labels and decisions; "undecided" agrees with nothing."""
        return kappa([row.decision for row in self.rows], self.decisions)

    @property
    def false_accepts(self) -> list[CalibrationRow]:
        """Incorrect answers that were called correct."""
        return [row for row in self._said(Decision.CORRECT) if not row.correct]

    @property
    def false_rejects(self) -> list[CalibrationRow]:
        """Correct answers that were called incorrect."""
        return [row for row in self._said(Decision.INCORRECT) if row.correct]

    @property
    def undecided(self) -> list[CalibrationRow]:
        """Answers on which the judge said nothing clear."""
        return self._said(Decision.UNDECIDED)

    @property
    def by_kind(self) -> dict[str, "Calibration"]:
        """The same for each kind of row."""
        pairs = list(zip(self.rows, self.decisions, strict=True))
        return {
            kind: Calibration(*zip(*(pair for pair in pairs if pair[0].kind == kind), strict=True))
            for kind in dict.fromkeys(row.kind for row in self.rows)
        }

    def _said(self, decision: Decision) -> list[CalibrationRow]:
        return [row for row, said in zip(self.rows, self.decisions, strict=True) if said == decision]


def read_calibration(path: Path = ROWS) -> list[CalibrationRow]:
    """The rows of a file. Raises OSError; ValidationError for a line that is no row."""
    return [CalibrationRow.model_validate_json(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


async def calibrate(judge: AnswerJudge, rows: Sequence[CalibrationRow]) -> Calibration:
    """Asks the judge about every row; it bounds its own calls. Raises ModelError when its model fails."""
    decisions = await asyncio.gather(*(judge.decide(row.question, row.gold, row.answer) for row in rows))
    return Calibration(rows, decisions)


def kappa(labels: Sequence[Decision], decisions: Sequence[Decision]) -> float:
    """Cohen's kappa, 1 for full agreement and 0 for chance; 1 too where both say always the same one thing.

    Raises ValueError if there is nothing to compare.
    """
    number = len(labels)
    if not number:
        raise ValueError("kappa needs at least one decision")
    agreed = sum(label == decision for label, decision in zip(labels, decisions, strict=True)) / number
    said, expected = Counter(decisions), Counter(labels)
    by_chance = sum(expected[one] * said[one] for one in Decision) / number**2
    return 1.0 if by_chance == 1 else (agreed - by_chance) / (1 - by_chance)
