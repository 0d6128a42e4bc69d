"""Search in lines of traces: what is found, and how often files are opened for it."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentflow.view import search
from agentflow.view.lines import Place, Tail, open_file
from agentflow.view.search import containing


def written(path: Path, values: list[Any]) -> list[Place]:
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return [place for place, _ in Tail(path).look().lines or ()]


@pytest.mark.parametrize(
    ("value", "text", "found"),
    [
        ({"answer": "The Needle in it"}, "nEEDLE in", True),
        ({"answer": "other"}, "needle", False),
        ({"turns": 3}, "turn", False),
        ({"turns": "his turn"}, "turn", True),
        ({"turn": [{"turns": 1}, {"turns": "u-turn"}]}, "turn", True),
        ({"a": 'he said "turn": so'}, 'said "turn": so', True),
        ({"a": "é and \n"}, "é and", True),
        ({"a": "back\\slash"}, "back\\slash", True),
        ({"answer": "x", "b": "y"}, 'x", "b', False),
    ],
)
def test_values_are_searched_in_any_case_and_names_of_fields_are_not(
    tmp_path: Path, value: Any, text: str, found: bool
) -> None:
    assert containing(written(tmp_path / "one.jsonl", [value]), text) == [found]


def test_lines_are_named_in_the_order_given(tmp_path: Path) -> None:
    first = written(tmp_path / "first.jsonl", [{"a": "it"}, {"a": "no"}, {"a": "it"}])
    second = written(tmp_path / "second.jsonl", [{"a": "no"}, {"a": "it"}])
    mixed = [second[0], first[2], first[1], second[1], first[0]]
    assert containing(mixed, "it") == [False, True, False, True, True]


def test_a_file_is_opened_once_for_each_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = written(tmp_path / "many.jsonl", [{"a": f"number {number}."} for number in range(2000)])
    opened = list[Path]()

    def counted(path: Path) -> Any:
        opened.append(path)
        return open_file(path)

    monkeypatch.setattr(search, "open_file", counted)
    assert sum(containing(places, "number 7.")) == 1
    assert len(opened) == 1
    monkeypatch.setattr(search, "BLOCK", 10_000)
    assert sum(containing(places, "number 1999.")) == 1
    total = sum(place.length for place in places)
    assert len(opened) - 1 <= total // 9_000 + 1


def test_a_file_that_is_gone_contains_nothing(tmp_path: Path) -> None:
    places = written(tmp_path / "gone.jsonl", [{"a": "it"}])
    (tmp_path / "gone.jsonl").unlink()
    assert containing(places, "it") == [False]
