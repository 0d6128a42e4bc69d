"""Flags of the audit, and calls without one: the question as a query, pages with the answers, hidden models."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.evals.benchmarks.catalogue import BENCHMARKS
from agentflow.evals.benchmarks.readers import choice
from agentflow.evals.passport.audit import Flag, FlagReason, audit, flags_of
from agentflow.evals.record import Record
from agentflow.graph.run.trace import TraceTurn
from agentflow.tools.result import ErrorClass
from tests.runs import record, turn

QUESTION = "Which city is the birthplace of the founder of the firm that published Song of Fupoz?"
PAGE = "huggingface.co/datasets/gaia-benchmark/GAIA"
QUERY, SEEN, COPIED, ANSWERED = FlagReason.QUESTION, FlagReason.PAGE, FlagReason.COPY, FlagReason.ANSWER


def searched(query: str, output: str = "nothing of note", tool: str = "google_search", **more: Any) -> TraceTurn:
    return turn(1, tool, output=output, arguments={"query": query}, **more)


def flags(*turns: TraceTurn, gold: str = "Bukazo", question: str = QUESTION, **models: str) -> list[Flag]:
    return flags_of(record(0, question=question, gold=gold, turns=turns), BENCHMARKS["gaia"].own_pages, models)


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
        ("Fupoz", f"{PAGE}\n... | final answer: BUKAZO | level 1", [SEEN, ANSWERED]),
        ("Fupoz", f"{PAGE}\nBukazonia", [SEEN]),
        ("Fupoz", "The answer is Bukazo, says https://example.org", []),
        ("Fupoz", f"My quiz\n\n{QUESTION}\nBukazo", [COPIED, ANSWERED]),
        (f"{QUESTION}\n", f'No page is titled "{QUESTION}". Closest pages:\n- Bukazo: A city.', [QUERY]),
    ],
)
def test_what_a_result_shows_is_flagged(query: str, output: str, found: list[FlagReason]) -> None:
    assert reasons(searched(query, output)) == found


def test_of_multiple_choice_the_stem_is_the_question() -> None:
    asked = choice({"question": QUESTION, "options": {"A": "Ankara", "B": "Bukazo"}, "answer_idx": "B"})
    copied = searched("Fupoz", f"{QUESTION} Bukazo.", tool="web_search")
    found = reasons(searched(QUESTION), copied, question=asked.question, gold=asked.gold)
    assert found == [QUERY, COPIED, ANSWERED]


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


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=12), st.integers(0, 4))
def test_the_accuracy_without_flagged_tries_is_never_higher(tries: list[tuple[bool, bool]], missing: int) -> None:
    records = [asked(n, flagged=flagged, correct=correct) for n, (flagged, correct) in enumerate(tries)]
    number = len(records) + missing
    found = audit(records, number, 1, (), {})
    right = [correct and not flagged for flagged, correct in tries]
    assert found.accuracy == sum(right) / max(1, number)
    assert (found.tries, len(found.items)) == (sum(flagged for flagged, _ in tries),) * 2
    assert found.correct == sum(flagged and correct for flagged, correct in tries)
