"""The parsers of the five modules on realistic replies, on any text and on hostile text. None runs what it reads."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentflow.nodes import analyst, answer_text, executor, planner, verifier
from agentflow.tools.card import ToolCard
from agentflow.tools.result import ErrorClass
from tests.attacks import Attack
from tests.cases import cases
from tests.linear import assert_linear

REPLIES = Path(__file__).with_name("replies")
TOOLS = ("base_generator", "python_coder", "wikipedia_search")
FINDING = "Turing was born in 1912."
"""Part of the analysis in each reply with a clear verdict."""


def card(name: str, *arguments: str, required: bool = True) -> ToolCard:
    properties = {argument: {"type": "string"} for argument in arguments}
    schema = {"properties": properties, "required": list(arguments[:1]) if required else []}
    return ToolCard(name=name, description="", arguments=schema)


SEARCH, WEB = card("wikipedia_search", "query"), card("web_search", "query", "url")
CARDS = [SEARCH, WEB, card("python_coder", "code"), card("clock", "zone", required=False), card("echo", "input")]
CARDS_BY_NAME = {each.name: each for each in [*CARDS, card("ping"), card("choose", "n", "N")]}


# Replies as models write them


@pytest.mark.parametrize(("reply", "analysis"), cases(REPLIES / "analyst.jsonl", "reply", "analysis"))
def test_an_analysis(reply: str, analysis: str) -> None:
    assert analyst.parse(reply) == analysis


@pytest.mark.parametrize(
    ("reply", "read", "error", "problem"), cases(REPLIES / "planner.jsonl", "reply", "plan", "error", "problem")
)
def test_a_plan_or_a_failed_turn_that_says_why(reply: str, read: Any, error: str | None, problem: str | None) -> None:
    plan = planner.parse(reply, TOOLS)
    assert plan.error == error
    assert plan.text == reply  # later prompts repeat it to the letter
    assert (problem or "") in plan.problem
    if read:
        assert [plan.sub_goal, plan.tool, plan.context] == read


@pytest.mark.parametrize(
    ("tool", "reply", "arguments"), cases(REPLIES / "executor.jsonl", "tool", "reply", "arguments")
)
def test_the_arguments_of_a_call_or_none(tool: str, reply: str, arguments: Any) -> None:
    assert executor.parse(reply, CARDS_BY_NAME[tool]) == arguments


@pytest.mark.parametrize(("reply", "expected"), cases(REPLIES / "verifier.jsonl", "reply", "verdict"))
def test_only_a_clear_stop_may_end_a_run(reply: str, expected: str) -> None:
    verdict = verifier.parse(reply)
    assert verdict.signal == ("stop" if expected == "stop" else "continue")
    assert verdict.analysis.endswith(verifier.UNREADABLE) == (expected == "unclear")
    if expected != "unclear":
        assert FINDING in verdict.analysis
        assert "Verdict" not in verdict.analysis


@pytest.mark.parametrize(("reply", "answer"), cases(REPLIES / "generator.jsonl", "reply", "answer"))
def test_an_answer_or_else_the_whole_reply(reply: str, answer: str) -> None:
    assert answer_text.parse(reply) == answer


# Cases of their own


def test_names_of_tools_may_be_part_of_another_and_a_very_long_one_is_cut() -> None:
    plan = planner.parse("Sub-Goal: a\nTool: " + "x" * 5000, TOOLS)
    assert (plan.error, len(plan.problem) < 250) == (ErrorClass.UNKNOWN_TOOL, True)
    tools = ("search", "web_search", "search engine")
    assert [planner.parse(f"Sub-Goal: a\nTool: We use {tool} now", tools).tool for tool in tools] == list(tools)


def test_a_long_analysis_is_cut_and_long_arguments_are_not() -> None:
    long = "x" * 100_000
    assert len(verifier.parse(f"Analysis: {long}\nVerdict: stop").analysis) == verifier.MAX_CHARACTERS
    assert executor.parse(json.dumps({"query": long}), SEARCH) == {"query": long}


def test_nothing_is_run(tmp_path: Path) -> None:
    trap = tmp_path / "ran"
    executor.parse(f'```python\ntool.execute(query=open("{trap}", "w"))\n```\n{{"query": __import__("os")}}', SEARCH)
    assert not trap.exists()


# Any text

PIECES = [
    "Sub-Goal", "Tool", "Context", "Analysis", "Verdict", "Conclusion", "Answer", ":", "\n", "\r\n", "python_coder",
    "stop", "STOP", "continue", "not ", "or", "true", "stop_signal", "ſtop ſignal", "<answer>", "</answer>", "<think>",
    "</think>", '{"query": ', '"a"', "{", "}", "[", "]", "(", ")", "=", "'", '"', "tool.execute", "query=", "code",
    "```python\n", "```", "**", "#", "3.", "\\", "\\ud800", "1", "-", "*", "NaN", "1e999", "lambda", "null", "b''",
    "1j", "...", "_", "İ", "\x85", "\x00", " ", ",",
]  # fmt: skip
ANY = st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=40).map("".join))


@given(ANY)
def test_any_text_is_an_analysis_a_verdict_and_an_answer(text: str) -> None:
    assert len(analyst.parse(text)) <= analyst.MAX_CHARACTERS
    verdict = verifier.parse(text)
    assert len(verdict.analysis) <= verifier.MAX_CHARACTERS + len(verifier.UNREADABLE) + 1
    assert verdict.signal == "continue" or "stop" in text.lower() or "true" in text
    answer = answer_text.parse(text)
    assert answer == answer.strip()


@given(ANY)
def test_any_text_is_a_known_tool_or_a_failure(text: str) -> None:
    plan = planner.parse(text, TOOLS)
    assert plan.text == text
    assert (plan.error is None) == (plan.tool in TOOLS) == (plan.problem == "")
    assert plan.error in (None, ErrorClass.BAD_PLAN, ErrorClass.UNKNOWN_TOOL)
    assert len(plan.problem.splitlines()) <= 1


@given(ANY, st.sampled_from(list(CARDS_BY_NAME.values())))
def test_any_text_is_arguments_of_the_tool_or_none(text: str, card: ToolCard) -> None:
    arguments = executor.parse(text, card)
    if arguments is not None:
        assert set(arguments) <= set(card.arguments["properties"]) or card.name == "ping"
        assert json.loads(json.dumps(arguments, ensure_ascii=False).encode()) == arguments


# What the prompts ask for

WORDS = st.text("abc xyz 12.,;", min_size=1).filter(str.strip)


@given(WORDS, WORDS, st.sampled_from(["stop", "continue"]))
def test_what_the_prompt_asks_for_is_read_exactly(first: str, second: str, signal: str) -> None:
    plan = planner.parse(f"Sub-Goal: {first}\nTool: python_coder\nContext: {second}", TOOLS)
    assert (plan.sub_goal, plan.context, plan.tool) == (first.strip(), second.strip(), "python_coder")
    verdict = verifier.parse(f"Analysis: {first}\nVerdict: {signal}")
    assert (verdict.analysis, verdict.signal) == (first.strip(), signal)
    assert verifier.parse(verifier.reply_text(verdict)) == verdict
    assert answer_text.parse(f"Because of that.\nAnswer: {first}") == first.strip()


# A backspace, form feed or carriage return before a letter is LaTeX with one backslash.
WRITTEN = st.text(st.characters(exclude_characters="\b\f\r", exclude_categories=["Cs"]))


@given(st.dictionaries(st.sampled_from(["query", "url"]), WRITTEN, min_size=1))
@example({"query": "</think> is not the end of a thought here"})
def test_a_call_that_the_prompt_asks_for_is_read_exactly(arguments: dict[str, str]) -> None:
    assert executor.parse(json.dumps(arguments), WEB) == arguments


# Hostile text

UNITS = [
    *("{", "}", "{}", '{"a":', '{"a":{}},', '{"query": "', "{'", "[", "(", "((", "f(", "f(\n", "f(a=1)\n", "f(f(a="),
    *("#", "*", ">", "<", "_", "`", '"', "-", " ", "\n", "```\n", "1.\n", "not ", "STOP CONTINUE ", "<think>"),
    *("\\", "\\f", "C:\\", "Analysis:", "Analysis:\n", "Tool:", "Tool:\n", "Verdict:", "Verdict:\n", "Answer:"),
    *("Answer:\n", "<answer>"),
]
HOSTILE = [
    *(Attack((unit,)) for unit in [*UNITS, "</answer>"]),
    *(Attack((" ",), "```\n"), Attack((" ",), "Tool", "x"), Attack(("python_",), "Sub-Goal: a\nTool: ")),
    *(Attack(("\n- ",), "Sub-Goal: a", "x"), Attack(("-",), "{", "1}"), Attack(("1+",), "{", "1}")),
    *(Attack((".a",), "f", "(query=1)"), Attack(("f(query=", ")")), Attack(("9",), '{"query": ', "}")),
    *(Attack(("stop ",), "Verdict: ", "continue"), Attack(("'",), "Answer: ")),
]
PARSERS: dict[str, tuple[Callable[[str], Any], Callable[[Any], bool]]] = {
    "analyst": (analyst.parse, lambda analysis: len(analysis) <= analyst.MAX_CHARACTERS),
    "planner": (lambda text: planner.parse(text, TOOLS), lambda plan: bool(plan.error)),
    # From Python 3.13 on, a name of 10,000 parts is parsed: a call like any other.
    "executor": (lambda text: executor.parse(text, SEARCH), lambda arguments: arguments in (None, {"query": 1})),
    "verifier": (verifier.parse, lambda verdict: verdict.signal == "continue"),
    "generator": (answer_text.parse, lambda answer: isinstance(answer, str)),
}


@pytest.mark.parametrize(("parse", "harmless"), PARSERS.values(), ids=PARSERS)
def test_hostile_text_takes_linear_time(parse: Callable[[str], Any], harmless: Callable[[Any], bool]) -> None:
    assert_linear(parse, HOSTILE)
    assert all(harmless(parse(attack.text(10_000))) for attack in HOSTILE)
