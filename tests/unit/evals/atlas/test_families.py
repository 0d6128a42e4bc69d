"""Questions have one exact answer, the splits are apart, and the same seed gives the same questions."""

from collections import Counter

import pytest

from agentflow.evals.atlas.families import FAMILIES, Problem, questions
from agentflow.evals.atlas.world import pages, split_of
from agentflow.evals.scorers.exact import correct


def test_there_are_at_least_ten_families_and_they_come_in_turn():
    asked = questions("test", 5 * len(FAMILIES))
    assert len(FAMILIES) >= 10
    assert set(Counter(question.family for question in asked).values()) == {5}


def test_a_smaller_number_of_questions_is_a_prefix_of_a_larger():
    assert questions("test", 60)[:24] == questions("test", 24)


def test_no_question_is_in_both_splits():
    test, train = ({question.question for question in questions(split, 600)} for split in ("test", "train"))
    assert len(test) == 600
    assert not test & train


def test_questions_without_names_are_split_by_their_text():
    for split in ("test", "train"):
        for question in questions(split, 240):
            if not any(step.tool == "wikipedia_search" for step in question.steps) and question.family != "direct":
                assert split_of(question.question) == split


def test_the_test_split_goes_deeper_than_the_train_split():
    depths = {
        split: {(question.family, question.depth) for question in questions(split, 600)} for split in ("test", "train")
    }
    deeper = depths["test"] - depths["train"]
    assert {family for family, _ in deeper} == {"arithmetic", "hops", "aggregate"}


def test_another_seed_asks_other_questions():
    first, second = ({question.question for question in questions("train", 120, seed=seed)} for seed in (0, 1))
    assert len(first & second) < 12  # the few that units allows may meet


@pytest.mark.parametrize("question", questions("test", 4 * len(FAMILIES)), ids=lambda q: q.family)
def test_the_answer_is_correct_and_follows_from_the_last_step(question: Problem):
    check = (question.answer, question.numbers, question.target)
    assert correct(question.answer, *check)
    assert correct(f" {question.answer}. ", *check)
    assert not correct("", *check)
    assert not correct(f"{question.answer} or so", *check)
    assert question.steps[-1].value == question.answer
    assert question.answer in question.steps[-1].output


def test_look_ups_quote_their_page():
    texts = {page.title: page.text for page in pages("test")}
    for question in questions("test", 240):
        for step in question.steps:
            if step.tool == "wikipedia_search":
                title = step.arguments["query"]
                assert step.output == f"{title}: {texts[title]}"
                assert step.value in step.output
