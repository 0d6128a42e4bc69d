import gzip
import json
import sys
from contextlib import closing
from pathlib import Path

import pytest

from agentflow.tools.encyclopedia.corpus import Corpus, CorpusError, Passage
from agentflow.tools.encyclopedia.corpus_build import build
from agentflow.tools.encyclopedia.dumps import open_dump, text_of_html
from tests.failing import fails

HTML = """<html><head><title>T</title><style>p {}</style></head><body><nav><p>Menu</p></nav>
<h1>Velmora</h1><p>Velmora is a <b>city</b>
in Tarn.<sup class="reference">[1]</sup></p><table><tr><th>People</th><td><p>41,000</p></td></tr></table>
<ul><li>By the sea<ul><li>and the river</li></ul></li></ul><script>evil()</script></body></html>"""


def passages(path: Path, start: int = 0) -> list[Passage]:
    return [passage for _, article in open_dump(path).articles(start) for passage in article]


@pytest.mark.parametrize("name", ["wiki ä?.jsonl", "wiki.jsonl.gz"])
def test_json_lines_become_passages(tmp_path: Path, name: str) -> None:
    text = '{"id": 7, "title": "A", "text": "a"}\n\n{"title": "B\\ud800", "text": "b", "more": 1}\n'
    (tmp_path / name).write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    assert passages(tmp_path / name) == [Passage("A", "a", "7"), Passage("B\ud800", "b")]
    build(tmp_path / "x #?.db", passages(tmp_path / name))
    with closing(Corpus(tmp_path / "x #?.db")) as corpus:
        assert corpus.page("b?") == Passage("B?", "b")


def test_the_form_of_retrieval_corpora_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "wiki.jsonl").write_text(json.dumps({"id": "3", "contents": '"Evan Morris"\nBorn in\n1977.'}) + "\n")
    assert passages(tmp_path / "wiki.jsonl") == [Passage("Evan Morris", "Born in\n1977.", "3")]


@pytest.mark.parametrize("name", ["w.jsonl", "w.jsonl.gz"])
def test_reading_goes_on_at_any_position(tmp_path: Path, name: str) -> None:
    lines = [json.dumps({"title": f"Ä{n}", "text": "t" * n}) for n in range(1, 50)]
    text = "\n".join(lines).encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    positions = [position for position, _ in open_dump(tmp_path / name).articles(0)]
    for number in (0, 7, 48):
        assert passages(tmp_path / name, positions[number]) == passages(tmp_path / name)[number + 1 :]


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
    with fails(CorpusError, "bad_line", "wiki.jsonl, line 1 after byte 28", problem):
        passages(path, 28)


def test_files_that_cannot_be_read_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("none.jsonl", "none.zim"):
        with fails(CorpusError, "unreadable", name):
            open_dump(tmp_path / name)
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


def test_what_is_read_of_a_page_of_html() -> None:
    assert text_of_html(HTML.encode()).split("\n\n") == [
        *("Velmora", "Velmora is a city in Tarn.", "People", "41,000", "By the seaand the river"),
    ]
    assert text_of_html(b"") == text_of_html(b"<!-- -->") == ""


# ZIM.


@pytest.fixture
def zim(tmp_path: Path) -> Path:
    writer = pytest.importorskip("libzim.writer")

    class Article(writer.Item):  # type: ignore[misc, name-defined, unused-ignore]
        def __init__(self, path: str, title: str, html: str, mimetype: str = "text/html") -> None:
            super().__init__()
            self.get_path, self.get_title, self.get_mimetype = (lambda: path), (lambda: title), (lambda: mimetype)
            self.get_contentprovider = lambda: writer.StringProvider(html)
            self.get_hints = lambda: {writer.Hint.FRONT_ARTICLE: True}

    long = "".join(f"<p>Paragraph {n} of a long article. {'Words. ' * 60}</p>" for n in range(6))
    with writer.Creator(str(tmp_path / "wiki.zim")) as creator:
        creator.add_item(Article("velmora", "Velmora", HTML))
        creator.add_item(Article("long", "Long", f"<html><body>{long}</body></html>"))
        creator.add_item(Article("style.css", "Style", "p {}", "text/css"))
        creator.add_redirection("old", "Old", "velmora", {})
    return tmp_path / "wiki.zim"


def test_articles_of_a_zim_archive_become_passages(zim: Path) -> None:
    found = passages(zim)
    assert {passage.title for passage in found} == {"Velmora", "Long"}
    (velmora,) = (passage for passage in found if passage.title == "Velmora")
    assert velmora.id == "velmora"
    assert "Velmora is a city in Tarn." in velmora.text
    long = [passage.text for passage in found if passage.title == "Long"]
    assert len(long) == 3
    assert all(f"Paragraph {n} " in " ".join(long) for n in range(6))
    positions = [position for position, _ in open_dump(zim).articles(0)]
    assert passages(zim, positions[-1]) == []


def test_what_is_no_zim_archive_is_named(tmp_path: Path, zim: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text.zim").write_text("no archive")
    with fails(CorpusError, "not_zim", "text.zim"):
        open_dump(tmp_path / "text.zim")
    monkeypatch.setitem(sys.modules, "libzim.reader", None)
    with fails(CorpusError, "missing_package", "[zim]"):
        open_dump(zim)
