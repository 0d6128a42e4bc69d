"""Flags of the audit, and calls without one: the question as a query, pages with the answers, hidden models."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentflow.evals.audit import (
    LONGEST,
    RUN_OF_WORDS,
    Flag,
    FlagReason,
    QuestionMatcher,
    audit,
    flags_of,
    own_models,
    own_page,
    plain_words,
    spaced,
)
from agentflow.evals.benchmarks.catalogue import BENCHMARKS, benchmark
from agentflow.evals.benchmarks.readers import choice
from agentflow.evals.record import EvaluationSettings, Provenance, Record, ToolProvenance
from agentflow.evals.report.summary import summary
from agentflow.evals.runs import read_runs
from agentflow.graph.context import Context
from agentflow.graph.run.trace import TraceTurn
from agentflow.tools.card import RUN, UNKNOWN
from agentflow.tools.result import ErrorClass
from tests.cases import table
from tests.runs import record, turn, write_run

QUESTION = "Which city is the birthplace of the founder of the firm that published Song of Fupoz?"
PAGE = "huggingface.co/datasets/gaia-benchmark/GAIA"
QUERY, SEEN, COPIED = FlagReason.QUESTION, FlagReason.PAGE, FlagReason.COPY


def searched(query: str, output: str = "nothing of note", tool: str = "google_search", **more: Any) -> TraceTurn:
    return turn(1, tool, output=output, arguments={"query": query}, **more)


def flags(*turns: TraceTurn, gold: str = "Bukazo", question: str = QUESTION, **models: str) -> list[Flag]:
    return flags_of(record(0, benchmark="gaia", question=question, gold=gold, turns=turns), models)


def reasons(*turns: TraceTurn, **more: str) -> list[FlagReason]:
    return [flag.reason for flag in flags(*turns, **more)]


@pytest.mark.parametrize(
    ("tool", "arguments", "found"),
    [
        ("google_search", {"query": QUESTION.upper()}, [QUERY]),
        ("wikipedia_search", {"query": QUESTION.rstrip("?")}, [QUERY]),
        ("web_search", {"query": QUESTION, "url": "https://example.org"}, [QUERY]),
        ("web_search", {"query": "x", "url": f"https://google.com/search?q={QUESTION.replace(' ', '+')}"}, [QUERY]),
        ("web_search", {"query": "x", "url": f"https://{PAGE}"}, [SEEN]),
        ("fs_search", {"options": {"terms": ["please:", QUESTION]}, "limit": 3}, [QUERY]),
        ("fs_search", {"terms": QUESTION.split()}, [QUERY]),
        ("base_generator", {"query": QUESTION}, []),
        ("python_coder", {"code": f"# {QUESTION}\nprint(1)"}, []),
    ],
)
def test_the_question_as_query_is_flagged(tool: str, arguments: dict[str, Any], found: list[FlagReason]) -> None:
    assert reasons(turn(1, tool, arguments=arguments)) == found


@pytest.mark.parametrize("error", ErrorClass)
def test_a_search_that_failed_was_asked_but_shows_nothing_and_one_that_was_not_made_was_not(error: ErrorClass) -> None:
    unsent = error in (ErrorClass.BAD_PLAN, ErrorClass.UNKNOWN_TOOL, ErrorClass.BAD_ARGUMENTS, ErrorClass.REFUSED)
    assert reasons(searched(QUESTION, f"see {PAGE}", error=error)) == ([] if unsent else [QUERY])


@pytest.mark.parametrize(
    ("query", "output", "found"),
    [
        ("Fupoz", f"{PAGE}\n... | final answer: BUKAZO | level 1", [SEEN]),
        ("Fupoz", "The answer is Bukazo, says https://example.org", []),
        ("Fupoz", f"My quiz\n\n{QUESTION}\nBukazo", [COPIED]),
        (f"{QUESTION}\n", f'No page is titled "{QUESTION}". Closest pages:\n- Bukazo: A city.', [QUERY]),
    ],
)
def test_what_a_result_shows_is_flagged(query: str, output: str, found: list[FlagReason]) -> None:
    assert reasons(searched(query, output)) == found


def test_of_multiple_choice_the_stem_is_the_question() -> None:
    asked = choice({"question": QUESTION, "options": {"A": "Ankara", "B": "Bukazo"}, "answer_idx": "B"})
    copied = searched("Fupoz", f"{QUESTION} Bukazo.", tool="web_search")
    found = reasons(searched(QUESTION), copied, question=asked.question, gold=asked.gold)
    assert found == [QUERY, COPIED]


def test_a_model_behind_a_search_is_flagged_where_it_answered_and_one_that_a_tool_declared() -> None:
    answered, other = searched("Fupoz"), searched("Fupoz")
    answered.result.provider, other.result.provider = "gemini (gemini-2.5-flash)", "tavily"
    failed = searched("Fupoz", error=ErrorClass.EMPTY_RESULT)
    [flag] = flags(answered, other, failed)
    assert (flag.reason, flag.detail) == (FlagReason.MODEL, "gemini-2.5-flash")
    assert reasons(turn(1, "oracle"), turn(2, "stock"), oracle="openai:gpt-4o") == [FlagReason.MODEL]


# ---------------------------------------------------------------- of a benchmark


def asked(number: int, *, flagged: bool, correct: bool, sample: int = 0) -> Record:
    question = f"{QUESTION} {number}"
    return record(
        number, correct=correct, sample=sample, question=question, turns=[searched(question if flagged else "Fupoz")]
    )


def test_flagged_tries_can_be_taken_for_wrong_each_by_itself() -> None:
    records = [asked(n, flagged=n < 3, correct=n in (0, 1, 5, 6)) for n in range(8)]
    found = audit("bamboogle", records, 10, 1, {})
    assert found.reasons == {FlagReason.QUESTION: 3}
    assert found.accuracy == 0.2
    assert found.low < 0.2 < found.high
    assert [item.id for item in found.items] == [one.task.id for one in records[:3]]
    assert QUESTION not in found.model_dump_json()
    tries = [asked(0, flagged=sample == 1, correct=True, sample=sample) for sample in range(2)]
    found = audit("bamboogle", tries, 1, 2, {})
    assert ([item.sample for item in found.items], found.accuracy) == ([1], 0.5)
    assert audit("bamboogle", [], 0, 1, {}).accuracy == 0


def test_a_declared_model_is_that_of_a_foreign_tool() -> None:
    tools = {"oracle": "openai:gpt-4o", "stock": UNKNOWN, "web_search": RUN, "python_coder": ""}
    provenance = Provenance(
        at="2026-01-01T00:00:00+00:00",
        call="agentflow eval bamboogle",
        versions={},
        tools={name: ToolProvenance(model=model, card="c") for name, model in tools.items()},
    )
    settings = EvaluationSettings(benchmarks={}, context=Context(), provenance=[provenance])
    assert own_models(settings) == {"oracle": "openai:gpt-4o"}


def test_no_text_of_a_benchmark_is_in_a_report(tmp_path: Path) -> None:
    page = f"https://{PAGE}?q=SECRET"
    texts = dict.fromkeys(("sub_goal", "context", "plan"), "SECRET")
    query, output = {"query": f"{QUESTION} SECRET"}, f"{page}\n{QUESTION} SECRET: Bukazo"
    said = turn(1, "google_search", arguments=query, output=output, **texts)
    one = record(0, benchmark="gaia", question=f"{QUESTION} SECRET", gold="Bukazo", answer="SECRET", turns=[said])
    broken = record(1, benchmark="gaia", question="SECRET", error="SECRET")
    found = summary(read_runs([write_run(tmp_path / "a", [one, broken])]))
    assert found["audits"][0][0]["reasons"] == {QUERY: 1, SEEN: 1}
    assert [word for word in ("SECRET", "Fupoz", "Bukazo") if word in str(found)] == []


# ---------------------------------------------------------------- of texts

QUESTIONS = {name: QuestionMatcher(question) for name, question in table(__file__, "leak_questions.txt")}
PAGES = (*BENCHMARKS["gaia"].own_pages, "hotpotqa.github.io")
FOUND: dict[str, Callable[[QuestionMatcher, str], bool]] = {
    "query": lambda asked, text: asked.is_query(text),
    "copy": lambda asked, text: asked.is_copied(text, []),
    "page": lambda asked, text: own_page(text, PAGES) in PAGES,
}


@pytest.mark.parametrize("kind", FOUND)
def test_leaks_are_found_and_texts_on_the_matter_are_none(kind: str) -> None:
    rows = [row for row in table(__file__, "leaks.txt") if row["kind"] == kind]
    assert {row["leak"] for row in rows} == {True, False}
    wrong = [row for row in rows if FOUND[kind](QUESTIONS[row.get("question", "hops")], row["text"]) != row["leak"]]
    assert wrong == []


def test_every_downloaded_benchmark_has_its_own_page() -> None:
    for name, one in BENCHMARKS.items():
        assert all("://" not in page and not page.endswith("/") for page in one.own_pages), name
        assert own_page(f"https://{one.own_pages[0]}", one.own_pages) if one.source else one.own_pages is one.pages
    assert benchmark("atlas").own_pages == ()


@given(st.lists(st.text("abcdefghij", min_size=3, max_size=8), min_size=13, max_size=60, unique=True), st.data())
def test_a_cut_that_leaves_thirteen_words_is_found(words: Sequence[str], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(words) - RUN_OF_WORDS))
    end = data.draw(st.integers(start + RUN_OF_WORDS, len(words)))
    assert QuestionMatcher(" ".join(words)).is_copied(f"before {' '.join(words[start:end])} after", [])


def test_the_length_of_what_is_read_is_bounded() -> None:
    question = "Which organ pumps the blood through the body, and how often does it beat in a day?"
    page, beginning = "huggingface.co/datasets/anyone/anything", "x " * (LONGEST // 2)
    assert [QuestionMatcher(question).is_copied(text, []) for text in (question, beginning + question)] == [True, False]
    assert [bool(own_page(text, [page])) for text in (page, beginning + page)] == [True, False]


@example(["a", "b", "aa"], "<", ">", "upper", " ")
@example(["a", "b", "aa"], "<b", ">", "upper", " ")
@given(
    st.lists(st.text("abcdefgh", min_size=1, max_size=6), min_size=3, max_size=40, unique=True),
    st.text(st.characters(exclude_categories=("Cs",)), max_size=60),
    st.text(st.characters(exclude_categories=("Cs",)), max_size=60),
    st.sampled_from(["upper", "title", "lower"]),
    st.sampled_from([" ", "  ", ", ", "\n"]),
)
def test_the_question_in_another_dress_and_among_words_is_the_question(
    words: list[str], before: str, after: str, case: str, between: str
) -> None:
    dressed = getattr(between.join(words), case)()
    found = spaced(plain_words(f"{before} {dressed} {after}"))
    assert QuestionMatcher(" ".join(words) + "?").share(found) == 1


@pytest.mark.parametrize(
    ("question", "text", "share"),
    [("", "", 0), ("?!", "?!", 0), ("Capital?", "the capital", 1), ("Capital?", "capitals", 0)],
)
def test_a_question_of_few_words_is_near_itself_alone(question: str, text: str, share: float) -> None:
    assert QuestionMatcher(question).share(spaced(plain_words(text))) == share
