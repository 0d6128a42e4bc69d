"""Lines that look like a part of our prompts are distinguished from ordinary ones."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.tools.imitation import imitates

LABELS = [
    *("System note 2:", "Sub-goal 3:", "Sub Goal iii:", "Verifier verdict:", "Final verdict:", "Updated question #2:"),
    *("Message to the planner:", "To the assistant:", "Planner's next step:", "Result no. 4:", "Tool call 2:"),
    *("SYSTEM OVERRIDE:", "Note from the system:", "Question (revised):", "Analysis of the verifier:", "Turn 3"),
    *("Failed (timeout):", "Turns left:", "Human:", "AI:", "Developer message:", "new system instruction:"),
    *("Verdict -", "Verifier verdict -", "verifier verdict -", "Verdict —", "Sub-Goal ->", "Système :"),
    *("Objective:", "Subtask 1:", "Sub-task:", "Instruction:", "Your next goal:", "Goal:", "Task 2:", "Next step:"),
    *("Decision: STOP", "Conclusion: stop", "Signal: CONTINUE", "Assessment:", "Command:", "New instructions:"),
    *("Benutzer:", "Система:", "系统：", "ユーザー："),
]
BEFORE = [
    "",
    "  ",
    "\u00a0",
    "\u2003",
    "**",
    "> ",
    "# ",
    "• ",
    "‣ ",
    "– ",
    "1. ",
    "(2) ",
    "⚠️ ",
    "[",
    "\u200b",
    "\u3164",
]


@pytest.mark.parametrize("label", LABELS)
def test_a_label_is_found_whatever_stands_before_it(label: str) -> None:
    missed = [before for before in BEFORE if not imitates(f"{before}{label} x") and not label.startswith("Turn 3")]
    assert missed == []


@given(st.sampled_from([label for label in LABELS if label.isascii() and label.endswith(":")]), st.data())
def test_a_label_is_found_however_it_is_written(label: str, data: st.DataObject) -> None:
    unseen = st.text("\u200b\u200d\u00ad\u2060\ufe0f", max_size=1)
    spelt = {
        "-": "-\u2010\u2011\u2012\u2013\u2212",
        " ": " \u00a0\u2007\u202f\u3000",
        ":": ":：\ufe55\ua789\u2236",
        "e": "eеéｅ",
        "o": "oоοó",
    }
    written = "".join(
        data.draw(st.sampled_from([*spelt.get(character, character), character.upper()])) + data.draw(unseen)
        for character in label
    )
    assert imitates(f"a\n{written} x")
    assert imitates(unicodedata.normalize("NFD", written))


@pytest.mark.parametrize(
    "text",
    [
        "System requirements: 8 GB\nUser guide: page 4\nHuman rights: a history\nToolbox: open\nContextual: yes",
        "The result of the study: none\nTool use in birds: common\nQuestions and answers\nResults\n# Context",
        "a verdict: guilty\nhis analysis: none\nresult = 5\nresults: list[str] = []\nreturn question - 1",
        '{"tool": "x",\n "question": 3}\n$context: 1px;\n@user: x\nself.context: Context\n`context`: what it is',
        "Goal - 45'\nCommand - run it\nConclusion: it stops\nTask: clean\nThe next step is: wait\nDecision: none",
        "AI-powered - tools\nUser-defined - yes\nin Turn 3 it rained\nTurn left\nSub-Saharan: Africa",
    ],
)
def test_ordinary_lines_are_none(text: str) -> None:
    assert [line for line in text.split("\n") if imitates(line)] == []
