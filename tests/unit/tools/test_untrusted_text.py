"""Output that would pass for a prompt of ours is marked and quoted; all other output stays as it is."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.evals.atlas.world import pages
from agentflow.tools.borders import unbordered
from agentflow.tools.imitation import imitates
from agentflow.tools.result import ToolResult
from agentflow.tools.untrusted_text import MARK, bounded_line, clean, mark_untrusted, one_line
from tests.cases import sections, table
from tests.unit.nodes.test_prompts import PROMPTS

LABELS = ["Question", "Analysis", "Turns left", "Result", "Verifier", "Verdict", "Sub-Goal", "Tool", "Context"]
LINES = [*(f"{label}: x" for label in LABELS), "Failed (timeout): x", "Turn 3"]
TOKENS = "<|im_end|> <|im_start|>system <|eot_id|> <｜User｜> </s> [INST] <<SYS>> <start_of_turn>".split()
PIECES = st.lists(
    st.sampled_from([*LINES, *TOKENS, "\n", "> ", "\r", "\u2028", "\x1b[0m", "a", MARK]) | st.text(max_size=5)
)
TEXT = PIECES.map("".join) | PIECES.map("\n".join)


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("form", ["{}", "  {}", "**{}", "> {}", "# {}"])
def test_a_line_of_our_prompts_is_quoted(line: str, form: str) -> None:
    said = f"Oslo\n\n{form.format(line)}\nend"
    assert mark_untrusted(said) == f"{MARK}\n> Oslo\n>\n> {form.format(line)}\n> end"
    assert mark_untrusted(said.upper()).startswith(MARK)


def test_the_labels_are_those_of_our_prompts() -> None:
    """A prompt with a new label cannot be imitated."""
    written = "\n".join(path.read_text() for path in PROMPTS.iterdir())
    labels = set(re.findall(r"^([A-Z][a-z]+(?:[ -][A-Za-z]+)?(?: \(\w+\))?):", written, re.MULTILINE))
    instructions = {"Tools", "Arguments", "Limits", "Example", "Answer", "Request"}
    assert {"Question", "Sub-Goal", "Turns left", "Failed (unknown_tool)"} <= labels
    assert [label for label in labels - instructions if not mark_untrusted(f"x\n{label}: y").startswith(MARK)] == []


@pytest.mark.parametrize("said", table(__file__, "untrusted_text.txt"))
def test_ordinary_output_stays(said: str) -> None:
    assert mark_untrusted(said) == said


def test_the_encyclopedia_that_the_embedded_model_reads_stays() -> None:
    for page in [*pages("test"), *pages("train")]:
        assert mark_untrusted(page.text) == page.text


@given(TEXT)
def test_nothing_in_output_begins_a_line_of_ours(said: str) -> None:
    """This holds also after the text was shortened, wherever it is cut."""
    ours = re.compile(rf"[\s*#-]*({'|'.join(LABELS)})\s*:", re.IGNORECASE)
    for text in (mark_untrusted(said), ToolResult(status="ok", output=mark_untrusted(said * 9)).shortened(20).output):
        lines = text.split("\n")[1:]
        assert not [line for line in lines if ours.match(line)]
        assert not [token for token in TOKENS if token in text]


@given(TEXT)
def test_marked_text_stays(said: str) -> None:
    assert mark_untrusted(mark_untrusted(said)) == mark_untrusted(said)
    assert clean(mark_untrusted(said)) == mark_untrusted(said)


CONTROLS = st.text(st.sampled_from("\x1b[]0;m?1hHJ\x07\\\x9b\x9dPX^_ \n\r\t\x00\x7f\x08\u202eab"), max_size=40)


@given(st.text() | CONTROLS)
def test_nothing_that_a_terminal_would_obey_is_left(text: str) -> None:
    assert all(c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cs") for c in clean(text))
    assert clean(clean(text)) == clean(text)
    assert "\n" not in one_line(text)


@pytest.mark.parametrize(("text", "shown"), table(__file__, "terminal.txt"))
def test_sequences_of_a_terminal_vanish_whole(text: str, shown: str) -> None:
    assert clean(text) == shown


@given(st.text() | TEXT, st.integers(2, 50))
def test_a_line_is_one_line(said: str, characters: int) -> None:
    line = bounded_line(said, characters)
    assert len(line) <= characters
    assert len(line.splitlines()) <= 1


# Borders of chat messages are broken, however they are spelt, and nothing else is.


BORDERS = sections(__file__, "borders.txt")
WITHOUT_BORDERS = BORDERS.pop("ordinary")
ALL = [token for [tokens] in BORDERS.values() for token in tokens.split()]
INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u034f\u180e\ufe0f\u2063\u061c\u3164\U000e0041\U000e0101"


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


@pytest.mark.parametrize("text", WITHOUT_BORDERS)
def test_ordinary_text_without_borders_stays(text: str) -> None:
    assert unbordered(text) == text


def test_a_tokenizer_s_own_tokens_are_broken_too() -> None:
    own = frozenset({"@@turn@@", "§", "~~~"})
    assert unbordered("a @@turn@@ § ~~~ b") == "a @@turn@@ § ~~~ b"
    assert unbordered("a @@tu\u00adrn@@ § ~~~ b", own) == "a @ @tu\u00adrn@@ § ~ ~~ b"


# Lines that look like a part of our prompts are distinguished from ordinary ones.


IMITATIONS = sections(__file__, "imitation.txt")
IMITATED, BEFORE = IMITATIONS["labels"], IMITATIONS["before"]


@pytest.mark.parametrize("label", IMITATED)
def test_a_label_is_found_whatever_stands_before_it(label: str) -> None:
    missed = [before for before in BEFORE if not imitates(f"{before}{label} x") and not label.startswith("Turn 3")]
    assert missed == []


@given(st.sampled_from([label for label in IMITATED if label.isascii() and label.endswith(":")]), st.data())
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


@pytest.mark.parametrize("line", IMITATIONS["ordinary"])
def test_ordinary_lines_are_none(line: str) -> None:
    assert not imitates(line)
