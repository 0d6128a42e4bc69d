"""Output that would pass for a prompt of ours is marked and quoted; all other output stays as it is."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.evals.atlas.world import pages
from agentflow.tools.result import ToolResult
from agentflow.tools.untrusted_text import MARK, bounded_line, clean, mark_untrusted
from tests.unit.nodes.test_prompts import PROMPTS
from tests.unit.tools.tables import table

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


@pytest.mark.parametrize("token", TOKENS)
def test_borders_of_messages_are_broken(token: str) -> None:
    assert token not in mark_untrusted(f"a {token} b")
    assert mark_untrusted(f"a {token} b").startswith(f"{MARK}\n> a ")
    assert token not in bounded_line(f"a {token} b", 100)


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


@given(st.text() | TEXT, st.integers(2, 50))
def test_a_line_is_one_line(said: str, characters: int) -> None:
    line = bounded_line(said, characters)
    assert len(line) <= characters
    assert len(line.splitlines()) <= 1
