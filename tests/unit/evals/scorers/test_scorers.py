"""What the table of answers does not say: who decided, what is reported besides, and what the rules rest on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.evals.scorers.dates import Date, as_date
from agentflow.evals.scorers.expression import expression
from agentflow.evals.scorers.final import final_answer
from agentflow.evals.scorers.free_text import exact_match, f1, free_text
from agentflow.evals.scorers.number import number
from agentflow.evals.scorers.option import option
from agentflow.evals.scorers.score import Decision, Score
from tests.cases import table


@pytest.mark.parametrize(
    ("score", "by"),
    [
        (number("42", "42"), "number"),
        (number("", "42"), "no answer"),
        (expression("1*2*3*4", (1, 2, 3, 4), 24), "expression"),
        (option("b", {"A": "x", "B": "y"}, "B"), "option letter"),
        (option("y", {"A": "x", "B": "y"}, "B"), "option text"),
        (free_text("Rome", ["Rome"]), "exact match"),
        (free_text("1 May 1900", ["May 1, 1900"]), "date"),
        (free_text("yes, both", ["no"]), "yes or no"),
        (free_text("2.0", ["2"]), "number"),
        (expression("I use 1*2*3*4 = 24", (1, 2, 3, 5), 24), "expression"),
    ],
)
def test_a_score_says_which_rule_decided(score: Score, by: str) -> None:
    assert score.decision != Decision.UNDECIDED
    assert score.decided_by == by


@pytest.mark.parametrize(("answer", "gold", "em", "overlap"), table(__file__, "em_and_f1.txt"))
def test_em_and_f1_are_those_of_the_official_scripts(answer: str, gold: str, em: float, overlap: float) -> None:
    assert exact_match(answer, gold) == em
    assert f1(answer, gold) == pytest.approx(overlap)


@pytest.mark.parametrize(("question", "gold", "reply", "right"), table(__file__, "sentences.txt"))
def test_a_sentence_that_repeats_the_question_is_read(question: str, gold: str, reply: str, right: bool | None) -> None:
    assert free_text(reply, [gold], question).decision == {True: Decision.CORRECT, None: Decision.UNDECIDED}[right]


def test_free_text_reports_the_best_of_all_accepted_answers() -> None:
    assert free_text("big cat", ["dog", "big black cat"]).metrics == {"em": 0.0, "f1": pytest.approx(0.8)}


@given(st.integers(1, 28), st.integers(1, 12), st.integers(1000, 2100))
def test_a_date_is_the_same_in_every_form(day: int, month: int, year: int) -> None:
    months = "January February March April May June July August September October November December"
    name = months.split()[month - 1]
    forms = (
        f"{day} {name} {year}",
        f"{name} {day}, {year}",
        f"{day} {name[:3]}. {year}",
        f"{year}-{month:02}-{day:02}",
    )
    assert {as_date(form) for form in forms} == {Date(year, month, day)}
    assert as_date(f"{name} {year}") == Date(year, month, 0)


@given(st.integers(-(10**12), 10**12))
def test_a_number_is_the_same_however_it_is_written(value: int) -> None:
    for written in (f"{value}", f"{value:,}", f"{value}.0", f"\\boxed{{{value}}}", f"x = {value}", f"{value} miles"):
        assert number(written, str(value)).correct
        assert number(written, str(value + 1)).decision == Decision.INCORRECT


@pytest.mark.parametrize(("text", "final"), table(__file__, "last_mark.txt"))
def test_the_last_mark_counts(text: str, final: str) -> None:
    assert final_answer(text) == final


DRUGS = {"A": "Metformin", "B": "Insulin glargine", "C": "Glipizide", "D": "Sitagliptin"}


@pytest.mark.parametrize(("name", "decisions"), [("chosen", {"correct"}), ("mentioned", {"incorrect", "undecided"})])
def test_a_mention_is_a_choice_only_if_nothing_else_is_said_of_it(name: str, decisions: set[str]) -> None:
    replies = table(__file__, f"{name}.txt")
    assert [one for one in replies if option(one, DRUGS, "A").decision not in decisions] == []
