"""Flags of the audit, and cases without one: the question as a query, pages with the answers, hidden models."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentflow.evals.benchmarks.catalogue import BENCHMARKS, benchmark
from agentflow.evals.benchmarks.readers import choice, without_options
from agentflow.evals.passport.audit import Flag, FlagReason, audit, flags_of
from agentflow.evals.passport.leaks import COPY, GRAM, NEAR, QuestionMatcher, own_page, plain_words, spaced
from agentflow.evals.record import Record
from agentflow.graph.run.trace import TraceTurn
from agentflow.tools.result import ErrorClass
from tests.runs import record, turn

QUESTION = "Which city is the birthplace of the founder of the firm that published Song of Fupoz?"
GAIA = BENCHMARKS["gaia"].own_pages

WORDS = st.lists(st.text("abcdefgh", min_size=1, max_size=6), min_size=GRAM, max_size=40, unique=True)
ANY_TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=60)


def searched(query: str, output: str = "nothing of note", tool: str = "google_search", **more: Any) -> TraceTurn:
    return turn(1, tool, output=output, arguments={"query": query}, **more)


def flags(*turns: TraceTurn, gold: str = "Bukazo", question: str = QUESTION, **models: str) -> list[Flag]:
    return flags_of(record(0, question=question, gold=gold, turns=turns), GAIA, models)


def reasons(*turns: TraceTurn, **more: str) -> list[FlagReason]:
    return [flag.reason for flag in flags(*turns, **more)]


# ---------------------------------------------------------------- nearness


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


@given(WORDS.filter(lambda words: len(words) >= 14), st.data())
def test_one_changed_word_of_a_long_question_is_still_the_question(words: list[str], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(words) - 1))
    changed = [*words[:at], "ZZZ", *words[at + 1 :]]
    assert NEAR <= nearness(" ".join(words), " ".join(changed)) < 1


@given(WORDS, st.data())
def test_less_than_three_quarters_of_the_words_are_not_the_question(words: list[str], data: st.DataObject) -> None:
    most = -(-3 * len(words) // 4) - 1
    kept = data.draw(st.lists(st.sampled_from(range(len(words))), max_size=most, unique=True))
    assert nearness(" ".join(words), " ".join(words[at] for at in sorted(kept))) < NEAR


@given(ANY_TEXT, ANY_TEXT)
def test_nearness_is_a_share(question: str, text: str) -> None:
    assert 0 <= nearness(question, text) <= 1


@pytest.mark.parametrize("question", ["", "?!"])
def test_a_question_without_words_is_near_nothing(question: str) -> None:
    assert nearness(question, question) == 0


def test_a_short_question_is_near_itself_alone() -> None:
    assert nearness("Capital?", "the capital") == 1
    assert nearness("Capital?", "capitals") == 0


# ---------------------------------------------------------------- the question as a query


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("google_search", {"query": QUESTION.upper()}),
        ("wikipedia_search", {"query": QUESTION.rstrip("?")}),
        ("web_search", {"query": QUESTION, "url": "https://example.org"}),
        ("web_search", {"query": "x", "url": f"https://www.google.com/search?q={QUESTION.replace(' ', '+')}"}),
        ("fs_search", {"options": {"terms": ["please:", QUESTION]}, "limit": 3}),
        ("fs_search", {"terms": QUESTION.split()}),
    ],
)
def test_the_question_as_query_is_flagged(tool: str, arguments: dict[str, Any]) -> None:
    assert reasons(turn(1, tool, arguments=arguments)) == [FlagReason.QUESTION]


def test_a_search_that_found_nothing_was_asked_all_the_same() -> None:
    assert reasons(searched(QUESTION, error=ErrorClass.EMPTY_RESULT)) == [FlagReason.QUESTION]


@pytest.mark.parametrize("error", [ErrorClass.BAD_PLAN, ErrorClass.UNKNOWN_TOOL, ErrorClass.BAD_ARGUMENTS])
def test_a_call_that_was_not_made_is_not_flagged(error: ErrorClass) -> None:
    assert reasons(searched(QUESTION, error=error)) == []


@pytest.mark.parametrize("query", ["Song of Fupoz", "founder of the firm that published Song of Fupoz", "Bukazo"])
def test_a_part_of_the_question_is_what_searching_is_for(query: str) -> None:
    assert reasons(searched(query)) == []


def test_tools_that_look_nothing_up_may_have_the_question() -> None:
    assert reasons(searched(QUESTION, tool="base_generator")) == []
    assert reasons(turn(1, "python_coder", arguments={"code": f"# {QUESTION}\nprint(1)"})) == []


def test_of_multiple_choice_the_stem_is_the_question() -> None:
    asked = choice({"question": QUESTION, "options": {"A": "Ankara", "B": "Bukazo"}, "answer_idx": "B"})
    assert without_options(asked.question, asked.gold) == (QUESTION, "Bukazo")
    copied = searched("Fupoz", f"{QUESTION} Bukazo.", tool="web_search")
    found = reasons(searched(QUESTION), copied, question=asked.question, gold=asked.gold)
    assert found == [FlagReason.QUESTION, FlagReason.COPY, FlagReason.ANSWER]


# ---------------------------------------------------------------- pages


@pytest.mark.parametrize(
    "url",
    [
        "https://huggingface.co/datasets/gaia-benchmark/GAIA",
        "https://HuggingFace.co/datasets/gaia-benchmark/gaia/viewer/2023_all/validation?p=1",
        "https://www.huggingface.co/datasets/gaia-benchmark/GAIA#x",
        "https://hf-mirror.com/datasets/gaia-benchmark/GAIA/tree/main",
        "https://hf.co/datasets/gaia-benchmark/GAIA).",
        "https://huggingface.co/api/datasets/gaia-benchmark/GAIA",
        "https://datasets-server.huggingface.co/rows?dataset=gaia-benchmark%2FGAIA&config=2023_all",
        "http://huggingface.co:443/datasets/gaia-benchmark%2FGAIA",
        "https://huggingface.co/spaces/gaia-benchmark/leaderboard",
        "https://raw.githubusercontent.com/lupantech/AgentFlow/main/test/gaia/data/data.json",
    ],
)
def test_own_pages_and_their_mirrors_are_known(url: str) -> None:
    assert own_page(f"1. Some page\n({url}\nsnippet", GAIA) in GAIA
    assert reasons(searched("Fupoz", f"see {url} there")) == [FlagReason.PAGE]
    assert reasons(turn(1, "web_search", arguments={"query": "x", "url": url})) == [FlagReason.PAGE]


@pytest.mark.parametrize(
    "url",
    [
        "https://huggingface.co/datasets/gaia-benchmark/GAIA-annotated-by-others-2",
        "https://huggingface.co/gaia-benchmark",
        "https://example.org/huggingface.co/datasetsgaia-benchmark/GAIA",
        "https://en.wikipedia.org/wiki/Gaia",
        "https://github.com/lupantech/AgentFlow2",
        "huggingface.co/datasets without an address",
    ],
)
def test_other_pages_are_not(url: str) -> None:
    assert own_page(url, GAIA) == ""


def test_every_downloaded_benchmark_has_its_own_page() -> None:
    for name, one in BENCHMARKS.items():
        assert all("://" not in page and not page.endswith("/") for page in one.own_pages), name
        assert own_page(f"https://{one.own_pages[0]}", one.own_pages) if one.source else one.own_pages is one.pages
    assert benchmark("atlas").own_pages == ()


def test_an_answer_on_such_a_page_is_worse() -> None:
    page = "https://huggingface.co/datasets/gaia-benchmark/GAIA"
    found = flags(searched("Fupoz", f"{page}\n... | final answer: BUKAZO | level 1"))
    assert [(flag.reason, flag.detail) for flag in found] == [
        (FlagReason.PAGE, "huggingface.co/datasets/gaia-benchmark/GAIA"),
        (FlagReason.ANSWER, ""),
    ]
    assert reasons(searched("Fupoz", "The answer is Bukazo, says https://example.org")) == []
    assert reasons(searched("Fupoz", f"{page}\nBukazonia")) == [FlagReason.PAGE]


def test_a_copy_of_the_question_anywhere_is_flagged() -> None:
    assert reasons(searched("Fupoz", f"My quiz\n\n{QUESTION}\nBukazo")) == [FlagReason.COPY, FlagReason.ANSWER]


def test_what_a_tool_repeats_of_its_call_is_no_copy() -> None:
    echo = f'No page is titled "{QUESTION}". Closest pages:\n- Bukazo: A city.'
    assert reasons(searched(f"{QUESTION}\n", echo, tool="wikipedia_search")) == [FlagReason.QUESTION]


def test_a_short_question_may_be_the_heading_of_any_page() -> None:
    short = "Who was the first king of Bukazo?"
    assert len(short.split()) < COPY
    assert reasons(searched("kings", f"{short} It was Fupoz."), question=short) == []


# ---------------------------------------------------------------- models behind tools


def test_a_model_behind_a_search_is_flagged_where_it_answered() -> None:
    answered, other = searched("Fupoz"), searched("Fupoz")
    answered.result.provider, other.result.provider = "gemini (gemini-2.5-flash)", "tavily"
    failed = searched("Fupoz", error=ErrorClass.EMPTY_RESULT)
    assert [(flag.reason, flag.detail) for flag in flags(answered, other, failed)] == [
        (FlagReason.MODEL, "gemini-2.5-flash")
    ]


def test_a_model_that_a_foreign_tool_declared_is_flagged() -> None:
    assert reasons(turn(1, "oracle"), turn(2, "stock"), oracle="openai:gpt-4o") == [FlagReason.MODEL]


# ---------------------------------------------------------------- of a benchmark


def asked(number: int, *, flagged: bool, correct: bool, sample: int = 0) -> Record:
    question = f"{QUESTION} {number}"
    return record(
        number, correct=correct, sample=sample, question=question, turns=[searched(question if flagged else "Fupoz")]
    )


def test_flagged_tries_can_be_taken_for_wrong() -> None:
    records = [asked(n, flagged=n < 3, correct=n in (0, 1, 5, 6)) for n in range(8)]
    found = audit(records, 10, 1, (), {})
    assert (found.tries, found.correct, found.share) == (3, 2, 0.3)
    assert found.reasons == {FlagReason.QUESTION: 3}
    assert found.accuracy == 0.2
    assert found.low < 0.2 < found.high
    assert [item.id for item in found.items] == [one.task.id for one in records[:3]]
    assert QUESTION not in found.model_dump_json()


def test_each_try_is_looked_at_by_itself() -> None:
    tries = [asked(0, flagged=sample == 1, correct=True, sample=sample) for sample in range(2)]
    found = audit(tries, 1, 2, (), {})
    assert [(item.sample, item.correct) for item in found.items] == [(1, True)]
    assert found.accuracy == 0.5


def test_nothing_flagged_leaves_the_accuracy() -> None:
    found = audit([asked(n, flagged=False, correct=n < 2) for n in range(4)], 4, 1, (), {})
    assert (found.tries, found.reasons, found.items, found.accuracy) == (0, {}, [], 0.5)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=12), st.integers(0, 4))
def test_the_accuracy_without_flagged_tries_is_never_higher(tries: list[tuple[bool, bool]], missing: int) -> None:
    records = [asked(n, flagged=flagged, correct=correct) for n, (flagged, correct) in enumerate(tries)]
    number = len(records) + missing
    found = audit(records, number, 1, (), {})
    assert found.accuracy <= sum(one.correct for one in records) / max(1, number)
    assert found.tries == sum(flagged for flagged, _ in tries)
    assert found.correct <= found.tries
