"""What is written can be read, whatever strings it has; what cannot be read is a ValueError or an OSError."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from agentflow.tools.json_codec import (
    from_json,
    model_from_json,
    read_regular,
    readable_lines,
    to_json,
    without_lone_surrogates,
)

HALVES = st.sampled_from(["\ud83d", "\ude00", "\ud83d\ude00", "\\", "\\ud83d", '"', "é", "\x00", "\u2028"])
STRINGS = st.lists(HALVES | st.text(max_size=5), max_size=6).map("".join)
DEEP = "[" * 100_000


class Any_(BaseModel):
    value: Any


@given(st.recursive(STRINGS | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(STRINGS, inner)))
@example("\\\ud83d\\\\")
def test_every_string_of_json_is_written_so_that_both_parsers_read_it(value: Any) -> None:
    line = to_json({"value": value}).encode("ascii")
    assert b"\n" not in line
    read = model_from_json(Any_, line).value
    assert read == from_json(line)["value"]
    whole = json.loads(json.dumps(value))  # pairs of halves are one character
    if json.dumps(whole).encode("ascii") == json.dumps(read).encode("ascii"):
        assert read == whole
    else:
        with pytest.raises(UnicodeEncodeError):
            json.dumps(whole, ensure_ascii=False).encode()


def test_lines_of_an_earlier_version_and_rows_of_others_have_no_half_characters() -> None:
    assert model_from_json(Any_, rb'{"value": "a\ud83d \ud83d\ude00 \\ud83d"}').value == "a\ufffd 😀 \\ud83d"
    with pytest.raises(ValidationError):
        model_from_json(Any_, b'{"value": ')
    assert from_json(without_lone_surrogates(r'["\uD83D", "\ude00\ud83d\ude00"]')) == ["\ufffd", "\ufffd😀"]


def test_what_is_nested_too_deeply_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="deep"):
        from_json(DEEP)
    with pytest.raises(ValidationError):
        model_from_json(Any_, f'{{"value": {DEEP}'.encode())


def test_torn_lines_of_a_file_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "lines.jsonl"
    assert list(readable_lines(file, Any_)) == []
    file.write_bytes(b'{"value": 1}\n{"val\n{"value": 2}\n{"value": ')
    assert [one.value for one in readable_lines(file, Any_)] == [1, 2]


def test_a_pipe_or_a_device_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    (tmp_path / "file").write_bytes(b"x")
    for name in ("pipe", "endless"):
        with pytest.raises(OSError, match="pipe"):
            read_regular(tmp_path / name)
    assert read_regular(tmp_path / "file") == b"x"
