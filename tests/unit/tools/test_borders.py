"""Borders of chat messages are broken, however they are spelt, and nothing else is."""

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.tools.borders import unbordered
from tests.unit.tools.tables import sections

CASES = sections(__file__, "borders.txt")
ORDINARY = CASES.pop("ordinary")
ALL = [token for [tokens] in CASES.values() for token in tokens.split()]
INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u034f\u180e\ufe0f\u2063\u061c\u3164\U000e0041\U000e0101"


def test_it_is_broken() -> None:
    assert [token for token in ALL if token in unbordered(f"a {token} b")] == []
    assert [token for token in ALL if token in unbordered(f"a{token}{token}b")] == []


@given(st.sampled_from(ALL), st.data())
def test_it_is_broken_whatever_unseen_stands_inside(token: str, data: st.DataObject) -> None:
    unseen = st.text(INVISIBLE, max_size=2)
    said = "".join(character + data.draw(unseen) for character in f"x{token}{token}y")
    shown = unbordered(said)
    assert token not in _seen(shown)
    assert _seen(shown).replace(" ", "") == _seen(said), "nothing else is changed"
    assert unbordered(shown) == shown


@given(st.sampled_from([token for token in ALL if "<" in token and "|" in token]), st.data())
def test_it_is_broken_in_full_width_and_any_case(token: str, data: st.DataObject) -> None:
    wide = {character: chr(ord(character) + 0xFEE0) for character in "<>|_abcdefghijklmnopqrstuvwxyz"}
    said = "".join(data.draw(st.sampled_from([c, wide.get(c, c), c.upper(), c.lower()])) for c in token)
    assert said not in unbordered(said)
    assert unicodedata.normalize("NFKC", said) not in unicodedata.normalize("NFKC", unbordered(said))


def _seen(text: str) -> str:
    return "".join(character for character in text if character not in INVISIBLE)


@given(st.text(st.characters(exclude_characters="<[]＜［］", max_codepoint=0x2FFF)))
def test_text_without_brackets_stays(text: str) -> None:
    assert unbordered(text) == text


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays(text: str) -> None:
    assert unbordered(text) == text


def test_the_documentation_stays() -> None:
    home = Path(__file__).parents[3]
    for path in (home / "README.md", home / "CONTRIBUTING.md", *(home / "docs").rglob("*.md")):
        if path.name != "security.md":  # which names some
            assert unbordered(path.read_text()) == path.read_text(), path


def test_a_tokenizer_s_own_tokens_are_broken_too() -> None:
    own = frozenset({"@@turn@@", "§", "~~~"})
    assert unbordered("a @@turn@@ § ~~~ b") == "a @@turn@@ § ~~~ b"
    assert unbordered("a @@tu\u00adrn@@ § ~~~ b", own) == "a @ @tu\u00adrn@@ § ~ ~~ b"
