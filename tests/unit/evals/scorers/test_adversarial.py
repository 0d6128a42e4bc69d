"""Answers that fool scorers (`answers.jsonl`), and what ours say; a judge is asked about what is undecided.

The questions are invented; the forms are those that models write, and those that attack a scorer. What counts most is
that no wrong answer is correct and no right one is incorrect.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from agentflow.evals.scorers.expression import expression, makes_target
from agentflow.evals.scorers.free_text import free_text
from agentflow.evals.scorers.gaia import quasi_exact
from agentflow.evals.scorers.number import number
from agentflow.evals.scorers.option import option
from agentflow.evals.scorers.score import decided

OPTIONS = {"A": "Oral ulcers", "B": "Kidney stones", "C": "Stones", "D": "Vitamin A"}
LIKE_LETTERS = {"A": "B12 deficiency", "B": "iron", "C": "B-12", "D": "None of these"}
BLOOD = {"A": "O", "B": "A", "C": "B", "D": "AB"}
RULES: dict[str, Any] = {
    "number": number,
    "option": lambda answer, gold: option(answer, OPTIONS, gold),
    "option like a letter": lambda answer, gold: option(answer, LIKE_LETTERS, gold),
    "options that are letters": lambda answer, gold: option(answer, BLOOD, gold),
    "free text": free_text,
    "gaia": quasi_exact,
    "expression": lambda answer, gold: expression(answer, (3, 3, 8, 8), 24),
    "expression alone": lambda answer, gold: decided(makes_target(answer, (3, 3, 8, 8), 24), "expression"),
}
LINES = Path(__file__).with_name("answers.jsonl").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("rule", RULES)
def test_every_answer_is_decided_as_the_table_says(rule: str) -> None:
    rows = [row for row in map(json.loads, LINES) if row["rule"] == rule]
    assert rows
    assert [row for row in rows if RULES[rule](row["answer"], row.get("gold")).decision != row["says"]] == []
