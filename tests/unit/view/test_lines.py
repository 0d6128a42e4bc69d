from pathlib import Path

import pytest

from agentflow.view import lines
from agentflow.view.lines import Tail


def texts(tail: Tail) -> list[str]:
    return [line.decode().strip() for _, line in tail.look().lines or ()]


def test_only_what_is_new_is_read_and_only_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("one\ntwo\nthr")
    tail = Tail(path)
    assert texts(tail) == ["one", "two"]
    assert texts(tail) == []
    with path.open("a") as file:
        file.write("ee\n\nfour\n")
    assert texts(tail) == ["three", "four"]


def test_a_line_is_found_again_at_its_place(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": "\r"}\r\n\nsecond\n')
    found = Tail(path).look().lines
    assert found
    assert [place.read() for place, _ in found] == [b'{"a": "\r"}\r\n', b"second\n"]


def test_a_file_written_anew_is_read_again_even_when_it_has_grown(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
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


def test_a_large_file_comes_in_blocks_and_a_long_line_in_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "BLOCK", 64)
    monkeypatch.setattr(lines, "LONGEST", 1024)
    path = tmp_path / "a.jsonl"
    given = [f"line {number}" for number in range(100)] + ["x" * 500, "last"]
    path.write_text("".join(f"{line}\n" for line in given))
    tail, found, looks = Tail(path), [], 0
    while True:
        news = tail.look()
        found += [line.decode().strip() for _, line in news.lines or ()]
        looks += 1
        if not news.more:
            break
    assert found == given
    assert looks > 10


def test_what_never_ends_is_no_line_to_wait_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "BLOCK", 64)
    monkeypatch.setattr(lines, "LONGEST", 256)
    path = tmp_path / "a.jsonl"
    path.write_text("x" * 600)
    tail = Tail(path)
    assert [len(line) for _, line in tail.look().lines or ()] == [256]
    assert tail.look().more


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret\n")
    (tmp_path / "a.jsonl").symlink_to(tmp_path / "secret")
    assert texts(Tail(tmp_path / "a.jsonl")) == []
