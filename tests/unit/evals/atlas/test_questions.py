"""Questions have one exact answer, their splits are apart, and the encyclopedia that they ask about is closed."""

import re
from collections import Counter

import pytest

from agentflow.evals.atlas import discovery, families
from agentflow.evals.atlas.families import Problem, Step
from agentflow.evals.atlas.world import RELATIONS, WORLDS, pages, worlds
from agentflow.evals.scorers.exact import correct

NAME = re.compile(r"(?:Song of )?\b[A-Z][a-z]+(?: Works)?(?: \((?:city|firm)\))?")
ALL = [
    *families.questions("test", 4 * len(families.FAMILIES)),
    *discovery.questions("test", 4 * len(discovery.FAMILIES)),
]


@pytest.mark.parametrize("level", [families, discovery])
def test_families_come_in_turn_and_their_splits_are_apart(level) -> None:
    asked = level.questions("test", 5 * len(level.FAMILIES))
    assert Counter(question.family for question in asked) == dict.fromkeys(level.FAMILIES, 5)
    assert level.questions("test", 60)[:24] == level.questions("test", 24)
    test, train = ({question.question for question in level.questions(split, 600)} for split in ("test", "train"))
    assert len(test) == 600
    assert not test & train


@pytest.mark.parametrize("question", ALL, ids=lambda question: question.family)
def test_the_answer_is_correct_and_follows_from_the_last_step(question: Problem) -> None:
    check = (question.answer, question.numbers, question.target)
    for said, right in (("{}", True), (" {}. ", True), ("", False), ("{} or so", False)):
        assert correct(said.format(question.answer), *check) == right, said
    assert question.steps[-1].value == question.answer
    assert question.answer in question.steps[-1].output


def test_look_ups_quote_their_page() -> None:
    texts = {page.title: page.text for page in pages("test")}
    for question in [*families.questions("test", 240), *discovery.questions("test", 100)]:
        for step in question.steps:
            if step.tool == "wikipedia_search":
                title = step.arguments["query"]
                assert step.output == f"{title}: {texts[title]}"
                assert step.value in step.output


def test_the_test_split_goes_deeper_than_the_train_split() -> None:
    test, train = ({(one.family, one.depth) for one in families.questions(split, 600)} for split in ("test", "train"))
    assert {family for family, _ in test - train} == {"arithmetic", "hops", "aggregate"}


def test_another_seed_asks_other_questions() -> None:
    first, second = ({one.question for one in families.questions("train", 120, seed=seed)} for seed in (0, 1))
    assert len(first & second) < 12  # the few that units allows may meet


def kind_of(step: Step) -> str:
    """A step's sub-goal without names, numbers and dates."""
    verb, _, rest = step.sub_goal.partition(" ")
    asked = re.sub(r"[\d()*+-]*\d[\d()*+ -]*", "n", NAME.sub("X", rest))
    return f"{step.tool}: {verb} {asked}"


def kinds_of(question: Problem) -> tuple[str, ...]:
    return tuple(kind_of(step) for step in question.steps)


def test_every_step_of_discovery_is_one_of_the_train_split_and_no_order_of_them_is() -> None:
    trained = {kinds_of(question) for question in families.questions("train", 3000)}
    steps = {step for kinds in trained for step in kinds}
    for split in ("train", "test"):
        for question in discovery.questions(split, 200):
            assert set(kinds_of(question)) <= steps, question.question
            assert kinds_of(question) not in trained, question.question


def test_every_page_states_its_facts_and_every_name_in_it_has_a_page_of_the_right_kind() -> None:
    for world in worlds("test"):
        for page in world.pages.values():
            assert all(value in page.text for value in page.facts.values())
            for relation, kind in RELATIONS.get(page.kind, {}).items():
                assert world.pages[page.facts[relation]].kind == kind
            if page.kind == "ambiguous":
                assert {world.pages[title].kind for title in page.facts.values()} == {"city", "firm"}


def test_no_title_is_used_twice() -> None:
    titles = [page.title for split in WORLDS for page in pages(split)]
    assert len(titles) == len(set(titles))
    assert {split: len(worlds(split)) for split in WORLDS} == WORLDS
