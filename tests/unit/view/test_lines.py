"""Lines of a file that grows, and what is found in them."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentflow.view import lines
from agentflow.view.lines import Place, Tail
from agentflow.view.search import containing
from tests.cases import table


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.jsonl"


def texts(tail: Tail) -> list[str]:
    return [line.decode().strip() for _, line in tail.look().lines or ()]


def test_only_what_is_new_is_read_and_only_whole_lines(path: Path) -> None:
    path.write_text("one\ntwo\nthr")
    tail = Tail(path)
    assert texts(tail) == ["one", "two"]
    assert texts(tail) == []
    with path.open("a") as file:
        file.write("ee\n\nfour\n")
    assert texts(tail) == ["three", "four"]


def test_a_file_written_anew_is_read_again_even_when_it_has_grown(path: Path) -> None:
    path.write_text("old\n")
    tail = Tail(path)
    assert texts(tail) == ["old"]
    path.write_text("new\nlonger than before\n")
    news = tail.look()
    assert news.again
    assert [line for _, line in news.lines or ()] == [b"new\n", b"longer than before\n"]
    path.unlink()
    assert tail.look().again
    assert not tail.look()


def test_a_large_file_comes_in_blocks_and_a_long_line_in_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "BLOCK", 64)
    monkeypatch.setattr(lines, "LONGEST", 1024)
    given = [f"line {number}" for number in range(100)] + ["x" * 500, "last"]
    path.write_text("".join(f"{line}\n" for line in given))
    tail, found, looks, more = Tail(path), list[str](), 0, True
    while more:
        news = tail.look()
        found += [line.decode().strip() for _, line in news.lines or ()]
        looks, more = looks + 1, bool(news.more)
    assert found == given
    assert looks > 10


def test_what_never_ends_is_no_line_to_wait_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "BLOCK", 64)
    monkeypatch.setattr(lines, "LONGEST", 256)
    path.write_text("x" * 600)
    tail = Tail(path)
    assert [len(line) for _, line in tail.look().lines or ()] == [256]
    assert tail.look().more


# ---------------------------------------------------------------- search


def written(path: Path, values: list[Any]) -> list[Place]:
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return [place for place, _ in Tail(path).look().lines or ()]


@pytest.mark.parametrize(("value", "text", "found"), table(__file__, "lines.txt"))
def test_values_are_searched_in_any_case_and_names_of_fields_are_not(
    path: Path, value: Any, text: str, found: bool
) -> None:
    assert containing(written(path, [value]), text) == [found]


def test_lines_are_named_in_the_order_given_and_a_file_that_is_gone_contains_nothing(tmp_path: Path) -> None:
    first = written(tmp_path / "first.jsonl", [{"a": "it"}, {"a": "no"}, {"a": "it"}])
    second = written(tmp_path / "second.jsonl", [{"a": "no"}, {"a": "it"}])
    mixed = [second[0], first[2], first[1], second[1], first[0]]
    assert containing(mixed, "it") == [False, True, False, True, True]
    (tmp_path / "second.jsonl").unlink()
    assert containing(mixed, "it") == [False, True, False, False, True]
