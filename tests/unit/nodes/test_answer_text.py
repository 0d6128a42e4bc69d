"""The answer as a chat shows it, whole and as it is written."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.nodes import answer_text
from agentflow.nodes.answer_text import AnswerStream, shown
from tests.attacks import Attack
from tests.cases import cases
from tests.linear import assert_linear

SHOWN = cases(Path(__file__).with_name("replies") / "shown.jsonl", "reply", "shown")


@pytest.mark.parametrize(("reply", "text"), SHOWN)
def test_what_is_shown(reply: str, text: str) -> None:
    assert shown(reply) == text


def streamed(pieces: list[str]) -> str:
    stream = AnswerStream()
    return "".join([*map(stream.add, pieces), stream.end()])


CORRECTED = ("Answer: 1911\nNo.", "Answer: 1912\nAnswer:", "**Answer: 1912**", "It is <answer>")
"""Beginnings of replies that are shown differently once the end is known."""


@pytest.mark.parametrize(("reply", "text"), SHOWN)
@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_a_stream_of_it(reply: str, text: str, size: int) -> None:
    found = streamed([reply[start : start + size] for start in range(0, len(reply), size)])
    assert found == text or (reply.startswith(CORRECTED) and text.startswith(found))


def test_a_long_line_is_shown_before_it_ends() -> None:
    stream = AnswerStream()
    assert stream.add("**Answer:** a text") == ""
    assert stream.add(" that is longer than any label can be") == "a text that is longer than any label can be"
    assert stream.add(" and goes on, which is shown from time to time, not letter by letter").startswith(" and goes on")


@given(st.lists(st.sampled_from(["Answer: ", "a word ", "\n", "**", "<answer>", "</think>", "{", "`", "x" * 50])))
def test_any_pieces_are_a_beginning_of_something(pieces: list[str]) -> None:
    streamed(pieces)
    shown("".join(pieces))


def test_it_takes_linear_time() -> None:
    pieces = ("Answer: ", "<answer>", "**", "word ", "\nAnswer:\n", "Answer: x\n")
    assert_linear(shown, [Attack((piece,)) for piece in pieces])


def test_a_reply_of_many_lines_is_not_read_anew_at_each(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def counted(text: str) -> str:
        read.append(len(text))
        return shown(text)

    monkeypatch.setattr(answer_text, "shown", counted)
    stream = AnswerStream()
    pieces = ["word\n"] * 4_000
    written = "".join(map(stream.add, pieces)) + stream.end()
    assert written == shown("".join(pieces))
    assert sum(read) < 100 * len("".join(pieces))
