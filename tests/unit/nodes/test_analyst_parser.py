"""The analyst's parser on realistic replies. Any text is an analysis."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.nodes.analyst import MAX_CHARACTERS, parse
from tests.attacks import Attack
from tests.linear import assert_linear

LINES = "A year is asked for.\nLook up Alan Turing.\nBeware of his father."

READ = {
    "as asked": LINES,
    "space around": f"\n\n  {LINES}  \n",
    "labelled": f"Analysis: {LINES}",
    "label below": f"Analysis:\n{LINES}",
    "heading": f"### Analysis\n{LINES}",
    "heading and a blank line": f"## Query Analysis\n\n{LINES}",
    "bold label": f"**Analysis:** {LINES}",
    "bold label on its own line": f"**Query Analysis**\n{LINES}",
    "capitals": f"ANALYSIS: {LINES}",
    "typographic hyphen": f"Query‑Analysis: {LINES}",
    "underscore": f"query_analysis: {LINES}",
    "written together": f"QueryAnalysis: {LINES}",
    "full-width colon": f"Analysis：{LINES}",
    "a sentence first": f"Sure! Here it is.\n\nAnalysis: {LINES}",
    "numbered": f"1. Analysis: {LINES}",
    "bullet": f"- Analysis: {LINES}",
    "quoted": f"> Analysis: {LINES}",
    "repeated: the last wins": f"Analysis: none\n\nAnalysis: {LINES}",
    "an empty repetition is none": f"Analysis: {LINES}\nAnalysis:",
    "fenced": f"```\n{LINES}\n```",
    "fenced with a language": f"```text\nAnalysis: {LINES}\n```",
    "fence not closed": f"```\n{LINES}",
    "Windows line ends": LINES.replace("\n", "\r\n"),
    "labelled, Windows line ends": f"Analysis:\r\n{LINES}".replace("\n", "\r\n"),
    "old Mac line ends": LINES.replace("\n", "\r"),
    "thinking first": f"<think>Analysis: hm</think>\n{LINES}",
    "thinking whose tag the template opened": f"hm</think>\n{LINES}",
    "JSON": json.dumps({"analysis": LINES}),
    "JSON in a fence": f"```json\n{json.dumps({'analysis': LINES})}\n```",
    "Python dict": str({"analysis": LINES}),
}


@pytest.mark.parametrize("text", READ.values(), ids=READ)
def test_is_read(text: str) -> None:
    assert parse(text) == LINES


AS_IT_STANDS = {
    "refusal": "I'm sorry, but I can't help with that.",
    "an answer instead": "1912",
    "list": "1. Look up Turing.\n2. Read the year.",
    "bullets": "- a year\n- one look-up",
    "markdown table": "| Step | Tool |\n|---|---|\n| 1 | python_coder |",
    "JSON of the reference": '{"concise_summary": "s", "required_skills": "r"}',
    "the word in a sentence": "The analysis is simple: look it up.",
    "code in it": "Compute:\n```python\nprint(1)\n```",
    "non-ASCII": "东京 – Łódź",
}


@pytest.mark.parametrize("text", AS_IT_STANDS.values(), ids=AS_IT_STANDS)
def test_is_left_as_it_stands(text: str) -> None:
    assert parse(text) == text


@pytest.mark.parametrize("text", ["", " \n", "<think>only a thought", "```\n```", "<think></think>"])
def test_is_nothing(text: str) -> None:
    assert parse(text) == ""


@given(st.text())
def test_any_text_is_an_analysis_of_bounded_length(text: str) -> None:
    assert len(parse(text)) <= MAX_CHARACTERS


UNITS = ("{", "{}", '{"a":', "#", "*", "`", "```\n", " ", "\n", "Analysis:", "Analysis:\n", "<think>")
HOSTILE = [Attack((unit,)) for unit in UNITS]


def test_hostile_text_takes_linear_time() -> None:
    assert_linear(parse, HOSTILE)
    assert all(len(parse(attack.text(10_000))) <= MAX_CHARACTERS for attack in HOSTILE)
