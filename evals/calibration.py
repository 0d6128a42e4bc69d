"""Calibration of a judge: its agreement with labels on answers that are known to be correct or incorrect.

`calibration.jsonl` has questions about an invented country, so that only the question and the gold answer can help, and
answers of the kinds that judges get wrong: aliases, dates, numbers, negation, refusals, several answers at once, and
text that addresses the judge. All were written by hand. Agreement is measured by Cohen's kappa, because a judge that
always decides "incorrect" agrees with more than half of the rows.

Source: J. Cohen, "A coefficient of agreement for nominal scales", Educational and Psychological Measurement 20, 1960.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from agentflow.evals.benchmarks.benchmark import AnswerJudge
from agentflow.evals.benchmarks.errors import BenchmarkError
from agentflow.evals.benchmarks.rows import read_rows
from agentflow.evals.scorers.score import Decision
from agentflow.tools.expected import expected
from agentflow.tools.untrusted_text import bounded_line

ROWS = Path(__file__).parent / "calibration.jsonl"


class CalibrationRow(BaseModel):
    """A labelled answer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    """The difficulty: alias, date, negation, ..."""
    question: str
    gold: str
    answer: str
    correct: bool

    @property
    def decision(self) -> Decision:
        """Return the label as a decision."""
        return Decision.CORRECT if self.correct else Decision.INCORRECT


@dataclass(frozen=True)
class Calibration:
    """Decisions of a judge on labelled rows."""

    rows: Sequence[CalibrationRow]
    decisions: Sequence[Decision]

    @property
    def kappa(self) -> float:
        """Return Cohen's kappa of labels and decisions; "undecided" agrees with no label."""
        return kappa([row.decision for row in self.rows], self.decisions)

    @property
    def false_accepts(self) -> list[CalibrationRow]:
        """Return the incorrect answers that the judge accepted."""
        return [row for row in self._decided(Decision.CORRECT) if not row.correct]

    @property
    def false_rejects(self) -> list[CalibrationRow]:
        """Return the correct answers that the judge rejected."""
        return [row for row in self._decided(Decision.INCORRECT) if row.correct]

    @property
    def undecided(self) -> list[CalibrationRow]:
        """Return the answers on which the judge did not decide."""
        return self._decided(Decision.UNDECIDED)

    @property
    def by_kind(self) -> dict[str, "Calibration"]:
        """Return the calibration of each kind of row."""
        pairs = list(zip(self.rows, self.decisions, strict=True))
        return {
            kind: Calibration(*zip(*(pair for pair in pairs if pair[0].kind == kind), strict=True))
            for kind in dict.fromkeys(row.kind for row in self.rows)
        }

    def _decided(self, decision: Decision) -> list[CalibrationRow]:
        return [row for row, predicted in zip(self.rows, self.decisions, strict=True) if predicted == decision]


def read_calibration(path: Path = ROWS) -> list[CalibrationRow]:
    """Read the rows of a file. Raises BenchmarkError."""
    found = []
    for place, row in read_rows(path):
        try:
            found.append(CalibrationRow.model_validate(row))
        except ValidationError as error:
            first = error.errors()[0]
            why = f"{'.'.join(map(str, first['loc']))}: {expected(first)}"
            raise BenchmarkError(f"{place} of {path} is no answer: {bounded_line(why, 200)}", code="bad_row") from error
    return found


async def calibrate(judge: AnswerJudge, rows: Sequence[CalibrationRow]) -> Calibration:
    """Ask the judge about every row; it limits its own concurrency. Raises ModelError if its model fails."""
    decisions = await asyncio.gather(*(judge.decide(row.question, row.gold, row.answer) for row in rows))
    return Calibration(rows, decisions)


def kappa(labels: Sequence[Decision], decisions: Sequence[Decision]) -> float:
    """Return Cohen's kappa: 1 for full agreement, 0 for agreement by chance, 1 if both always have the same decision.

    Raises ValueError for empty lists.
    """
    number = len(labels)
    if not number:
        raise ValueError("kappa needs at least one decision")
    agreed = sum(label == decision for label, decision in zip(labels, decisions, strict=True)) / number
    predicted, expected = Counter(decisions), Counter(labels)
    by_chance = sum(expected[one] * predicted[one] for one in Decision) / number**2
    return 1.0 if by_chance == 1 else (agreed - by_chance) / (1 - by_chance)
