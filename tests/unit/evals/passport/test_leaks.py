"""Planted leaks that the audit detects, and harmless texts that it accepts (`leaks.jsonl`), by kind."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentflow.evals.benchmarks.catalogue import BENCHMARKS, benchmark
from agentflow.evals.passport.leaks import GRAM, LONGEST, RUN, QuestionMatcher, own_page, plain_words, spaced
from tests.cases import table

QUESTIONS = {name: QuestionMatcher(*said) for name, *said in table(__file__, "questions.txt")}
PAGES = (*BENCHMARKS["gaia"].own_pages, "hotpotqa.github.io")
FOUND: dict[str, Callable[[QuestionMatcher, str], bool]] = {
    "query": lambda asked, text: asked.is_query(text),
    "copy": lambda asked, text: asked.is_copied(text, []),
    "key": lambda asked, text: asked.is_listed(text),
    "page": lambda asked, text: own_page(text, PAGES) in PAGES,
}
LINES = Path(__file__).with_name("leaks.jsonl").read_text(encoding="utf-8").splitlines()
WORDS = st.lists(st.text("abcdefgh", min_size=1, max_size=6), min_size=GRAM, max_size=40, unique=True)
ANY_TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=60)


@pytest.mark.parametrize("kind", FOUND)
def test_leaks_are_found_and_texts_on_the_matter_are_none(kind: str) -> None:
    rows = [row for row in map(json.loads, LINES) if row["kind"] == kind]
    assert {row["leak"] for row in rows} == {True, False}
    wrong = [row for row in rows if FOUND[kind](QUESTIONS[row.get("question", "hops")], row["text"]) != row["leak"]]
    assert wrong == []


def test_every_downloaded_benchmark_has_its_own_page() -> None:
    for name, one in BENCHMARKS.items():
        assert all("://" not in page and not page.endswith("/") for page in one.own_pages), name
        assert own_page(f"https://{one.own_pages[0]}", one.own_pages) if one.source else one.own_pages is one.pages
    assert benchmark("atlas").own_pages == ()


def test_what_a_tool_repeats_of_its_call_is_no_copy_in_any_form() -> None:
    call = "In what town was the founder of the company behind Song of Fupoz born?"
    assert not QUESTIONS["hops"].is_copied(f"Results for: {call}\n1. Kimawo Press", [call])


@given(st.lists(st.text("abcdefghij", min_size=3, max_size=8), min_size=RUN, max_size=60, unique=True), st.data())
def test_a_cut_that_leaves_thirteen_words_is_found(words: Sequence[str], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(words) - RUN))
    end = data.draw(st.integers(start + RUN, len(words)))
    assert QuestionMatcher(" ".join(words), "").is_copied(f"before {' '.join(words[start:end])} after", [])


def test_the_length_of_what_is_read_is_bounded() -> None:
    question = "Which organ pumps the blood through the body, and how often does it beat in a day?"
    asked = QuestionMatcher(question, "the heart")
    page = "huggingface.co/datasets/anyone/anything"
    beginning = "x " * (LONGEST // 2)
    assert asked.is_copied(question, [])
    assert not asked.is_copied(beginning + question, [])
    assert asked.answered_in("the heart")
    assert not asked.answered_in(beginning + "the heart")
    assert own_page(page, [page])
    assert not own_page(beginning + page, [page])


def nearness(question: str, text: str) -> float:
    return QuestionMatcher(question, "").share(spaced(plain_words(text)))


@example(["a", "b", "aa"], "<", ">", "upper", " ")
@example(["a", "b", "aa"], "<b", ">", "upper", " ")
@given(
    WORDS, ANY_TEXT, ANY_TEXT, st.sampled_from(["upper", "title", "lower"]), st.sampled_from([" ", "  ", ", ", "\n"])
)
def test_the_question_in_another_dress_and_among_words_is_the_question(
    words: list[str], before: str, after: str, case: str, between: str
) -> None:
    question = " ".join(words) + "?"
    dressed = getattr(between.join(words), case)()
    assert nearness(question, f"{before} {dressed} {after}") == 1


@pytest.mark.parametrize(
    ("question", "text", "share"),
    [("", "", 0), ("?!", "?!", 0), ("Capital?", "the capital", 1), ("Capital?", "capitals", 0)],
)
def test_a_question_of_few_words_is_near_itself_alone(question: str, text: str, share: float) -> None:
    assert nearness(question, text) == share
