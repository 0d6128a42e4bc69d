"""The encyclopedia is closed, the same everywhere, and split by content."""

from agentflow.evals.atlas.world import RELATIONS, WORLDS, pages, split_of, worlds


def test_every_name_that_a_page_mentions_has_a_page_of_the_right_kind():
    for world in worlds("test"):
        for page in world.pages.values():
            for relation, kind in RELATIONS.get(page.kind, {}).items():
                assert world.pages[page.facts[relation]].kind == kind
            if page.kind == "ambiguous":
                assert {world.pages[title].kind for title in page.facts.values()} == {"city", "firm"}


def test_the_splits_share_no_title():
    test, train = ({page.title for page in pages(split)} for split in ("test", "train"))
    assert not test & train


def test_titles_are_unique_within_a_split():
    for split, number in WORLDS.items():
        titles = [page.title for page in pages(split)]
        assert len(titles) == len(set(titles))
        assert len(worlds(split)) == number


def test_a_page_states_all_its_facts():
    for page in pages("test"):
        assert all(value in page.text for value in page.facts.values())


def test_the_split_is_decided_by_content():
    shares = [split_of(f"question {number}") for number in range(2000)].count("test") / 2000
    assert 0.17 < shares < 0.23
    assert split_of("Vukes") == split_of("Vukes")
