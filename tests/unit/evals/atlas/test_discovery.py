"""Questions that ask for discovery: known steps, in orders that the train split does not have."""

import re
from collections import Counter

import pytest

from agentflow.evals.atlas import families
from agentflow.evals.atlas.discovery import FAMILIES, LEVELS, questions
from agentflow.evals.atlas.families import Problem, Step
from agentflow.evals.atlas.world import pages
from agentflow.evals.scorers.exact import correct

NAME = re.compile(r"(?:Song of )?\b[A-Z][a-z]+(?: Works)?(?: \((?:city|firm)\))?")


def kind_of(step: Step) -> str:
    """Return a step's sub-goal without names, numbers and dates."""
    verb, _, rest = step.sub_goal.partition(" ")
    asked = re.sub(r"[\d()*+-]*\d[\d()*+ -]*", "n", NAME.sub("X", rest))
    return f"{step.tool}: {verb} {asked}"


def kinds_of(question: Problem) -> tuple[str, ...]:
    return tuple(kind_of(step) for step in question.steps)


def test_every_step_is_one_of_the_train_split_and_no_order_of_them_is() -> None:
    trained = {kinds_of(question) for question in families.questions("train", 3000)}
    steps = {step for kinds in trained for step in kinds}
    for split in ("train", "test"):
        for question in questions(split, 200):
            assert set(kinds_of(question)) <= steps, question.question
            assert kinds_of(question) not in trained, question.question


def test_the_families_come_in_turn_and_their_splits_are_apart() -> None:
    asked = questions("test", 5 * len(FAMILIES))
    assert Counter(question.family for question in asked) == dict.fromkeys(FAMILIES, 5)
    test, train = ({question.question for question in questions(split, 600)} for split in ("test", "train"))
    assert len(test) == 600
    assert not test & train


@pytest.mark.parametrize("question", questions("test", 4 * len(FAMILIES)), ids=lambda q: q.family)
def test_the_answer_is_correct_and_follows_from_the_last_step(question: Problem) -> None:
    assert correct(question.answer, question.answer, question.numbers, question.target)
    assert question.steps[-1].value == question.answer
    assert question.answer in question.steps[-1].output


def test_look_ups_quote_their_page() -> None:
    texts = {page.title: page.text for page in pages("test")}
    for question in questions("test", 100):
        for step in question.steps[:-1]:
            title = step.arguments["query"]
            assert step.output == f"{title}: {texts[title]}"
            assert step.value in step.output


def test_a_level_is_a_name_of_its_questions() -> None:
    assert LEVELS["atlas"]("test", 24) == families.questions("test", 24)
    assert LEVELS["discovery"]("test", 24) == questions("test", 24)
