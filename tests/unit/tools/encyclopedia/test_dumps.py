import gzip
import json
from contextlib import closing
from pathlib import Path

import pytest

from agentflow.tools.encyclopedia.corpus import Corpus, CorpusError, Passage
from agentflow.tools.encyclopedia.corpus_build import build
from agentflow.tools.encyclopedia.dumps import Dump
from tests.failing import fails


def passages(path: Path) -> list[Passage]:
    return [*Dump(path).passages()]


@pytest.mark.parametrize("name", ["wiki ä?.jsonl", "wiki.jsonl.gz"])
def test_json_lines_become_passages(tmp_path: Path, name: str) -> None:
    text = '{"id": 7, "title": "A", "text": "a"}\n\n{"title": "B\\ud800", "text": "b", "more": 1}\n'
    written = text.encode("utf-8-sig")
    (tmp_path / name).write_bytes(gzip.compress(written) if name.endswith(".gz") else written)
    assert passages(tmp_path / name) == [Passage("A", "a", "7"), Passage("B\ud800", "b")]
    build(tmp_path / "x #?.db", passages(tmp_path / name))
    with closing(Corpus(tmp_path / "x #?.db")) as corpus:
        assert corpus.pages("b?", 1) == [Passage("B?", "b")]


def test_the_form_of_retrieval_corpora_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "wiki.jsonl").write_text(json.dumps({"id": "3", "contents": '"Evan Morris"\nBorn in\n1977.'}) + "\n")
    assert passages(tmp_path / "wiki.jsonl") == [Passage("Evan Morris", "Born in\n1977.", "3")]


BAD_LINES = {
    **dict.fromkeys(("{", "[" * 100_000), "not JSON"),
    "[1]": "expected an object",
    '{"title": "", "text": "a"}': '"title" must be',
    **dict.fromkeys(('{"title": "A"}', '{"title": "A", "text": 3}', '{"contents": "no text"}'), '"text" must be'),
}


@pytest.mark.parametrize(("line", "problem"), BAD_LINES.items())
def test_a_bad_line_is_named(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "wiki.jsonl"
    path.write_text('{"title": "A", "text": "a"}\n' + line + "\n")
    with fails(CorpusError, "bad_line", "wiki.jsonl, line 2", problem):
        passages(path)


def test_files_that_cannot_be_read_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with fails(CorpusError, "unreadable", "none.jsonl"):
        Dump(tmp_path / "none.jsonl")
    with fails(CorpusError, "unreadable", "folder"):
        Dump(tmp_path)
    cut = gzip.compress(b'{"title": "A", "text": "a"}\n' * 1000)[:-9]
    damaged = {"latin.jsonl": b'{"title": "\xe9"}', "cut.jsonl.gz": cut, "text.jsonl.gz": b"not gzip"}
    for name, content in damaged.items():
        (tmp_path / name).write_bytes(content)
        with fails(CorpusError, "truncated" if name.endswith(".gz") else "bad_line"):
            passages(tmp_path / name)
    monkeypatch.setattr("agentflow.tools.encyclopedia.dumps.MAX_LINE", 50)
    (tmp_path / "long.jsonl").write_text("x" * 51)
    with fails(CorpusError, "line_too_long"):
        passages(tmp_path / "long.jsonl")
