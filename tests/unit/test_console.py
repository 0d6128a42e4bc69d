"""Untrusted text is shown without anything that a terminal would obey."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.tools.untrusted_text import clean, one_line

CONTROLS = st.text(st.sampled_from("\x1b[]0;m?1hHJ\x07\\\x9b\x9dPX^_ \n\r\t\x00\x7f\x08\u202eab"), max_size=40)


@given(st.text() | CONTROLS)
def test_no_control_character_is_left(text: str) -> None:
    assert all(c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cs") for c in clean(text))
    assert clean(clean(text)) == clean(text)
    assert "\n" not in one_line(text)


@given(st.text(st.characters(exclude_categories=("Cc", "Cs", "Cf"))))
def test_ordinary_text_is_untouched(text: str) -> None:
    assert clean(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[38;2;1;2;3mx", "x"),
        ("\x9b31mred", "red"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPdevice\x1b\\x", "x"),
        ("\x1bcx", "x"),
        ("one\r\ntwo\rthree", "one\ntwothree"),
        ("a\x1b", "a"),
    ],
)
def test_sequences_vanish_whole(text: str, shown: str) -> None:
    assert clean(text) == shown
