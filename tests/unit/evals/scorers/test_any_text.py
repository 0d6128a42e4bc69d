"""Whatever an answer is, a scorer decides in linear time, does not raise, and runs nothing."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.evals.scorers.dates import as_date
from agentflow.evals.scorers.exact import correct
from agentflow.evals.scorers.expression import expression
from agentflow.evals.scorers.free_text import free_text
from agentflow.evals.scorers.gaia import quasi_exact
from agentflow.evals.scorers.number import number
from agentflow.evals.scorers.option import option
from agentflow.evals.scorers.score import Score
from tests.attacks import Attack
from tests.linear import assert_linear
from tests.processes import python

OPTIONS = {"A": "1.5", "B": "-1.5", "C": "+", "D": "the liver"}
SCORERS = {
    "number": lambda answer, gold="42": number(answer, gold),
    "expression": lambda answer, gold="": expression(answer, (1, 2, 3, 4), 24),
    "option": lambda answer, gold="B": option(answer, OPTIONS, gold),
    "free text": lambda answer, gold="3 November 1929": free_text(answer, [gold, "yes", "5"]),
    "gaia": lambda answer, gold="1, b; 3": quasi_exact(answer, gold),
}
PIECES = st.sampled_from(
    r"<answer> </answer> \boxed{ \frac{ } { \text{ \, $ Answer: ^ 9 99999 1,234 .5 -3 e99 e+9 / * ** ( ) [ ] = A B (C)"
    r" or not yes no the 3 November 1929-11-03 I don't know , . ; % __import__('os') eval( \d <think> </think>".split()
)
ANSWERS = st.one_of(st.text(), st.lists(PIECES, max_size=40).map(" ".join), st.lists(PIECES, max_size=40).map("".join))


@given(answer=ANSWERS, gold=ANSWERS)
def test_any_answer_and_any_gold_get_a_score(answer: str, gold: str) -> None:
    for scorer in SCORERS.values():
        assert isinstance(scorer(answer), Score)
        assert isinstance(scorer(answer, gold), Score)
    assert as_date(answer) is None or as_date(answer).month <= 12
    assert correct(answer, gold) in (True, False)


UNITS = [
    *("(", "((1+", "8+", "9", ",000", "\\boxed{", "\\frac{", "\\frac", "\\text{", "<answer>", "Answer:\n", "=", "the "),
    *("I don't know ", "A) ", "*", "#", "'", "<think>", "3 November ", "\x00", "\ud800", "\ufdfa"),
]
LONG = [
    *(Attack((unit,)) for unit in UNITS),
    *(Attack((blank,), after=end) for blank, end in ((" ", "x"), ("\t", "1"), ("\n", "1"), ("-", "1"))),
    Attack(("\\frac{", "}{")),
    Attack((",",), "=", "x"),
]


@pytest.mark.parametrize("name", SCORERS)
def test_the_time_for_a_long_answer_is_linear(name: str) -> None:
    assert_linear(SCORERS[name], LONG, size=10_000)
    texts = [*(attack.text(100_000) for attack in LONG), "9**9**9**9**9", "1e999999999"]
    assert not any(SCORERS[name](text).correct for text in texts)


PROGRAM = (Path(__file__).parent / "cases/attacks.py.txt").read_text()


@pytest.mark.process
def test_nothing_in_an_answer_is_run() -> None:
    """Python tells of every program that is run, file that is opened, module that is imported, process started."""
    done = python("-c", PROGRAM)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
