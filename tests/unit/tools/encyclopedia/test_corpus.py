"""The index of an encyclopedia: what it finds, and how it is built."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agentflow.tools.encyclopedia import corpus_build
from agentflow.tools.encyclopedia.corpus import Corpus, CorpusError, Passage
from agentflow.tools.encyclopedia.corpus_build import build
from agentflow.tools.encyclopedia.dumps import Dump
from tests.failing import fails

PASSAGES = [
    Passage("Alan Turing", "Alan Turing was an English mathematician. He was born in London.", "7"),
    Passage("London", "London is the capital of England."),
    Passage("Zoë Café", "A place in Montréal."),
    Passage("Straße", "A German word."),
    Passage("London", "A second page of this title."),
]


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    assert build(tmp_path / "corpus.db", PASSAGES) == 5
    return Corpus(tmp_path / "corpus.db")


def test_titles_match_whole_without_case_and_space_for_all_threads_and_read_only(corpus: Corpus) -> None:
    titles = {"Alan Turing": 0, "alan turing": 0, "  ALAN \n TURING ": 0, "STRASSE": 3, "London": 1}
    assert {title: PASSAGES.index(corpus.pages(title, 1)[0]) for title in titles} == titles
    assert corpus.pages("Alan", 1) == []
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: (corpus.search("london", 1), corpus.pages("London", 1)), range(200)))
    assert found == [([PASSAGES[1]], [PASSAGES[1]])] * 200
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        corpus._connection.execute("DELETE FROM passage")


def test_any_term_finds_and_the_best_comes_first(corpus: Corpus) -> None:
    assert corpus.search("who is mathematician turing", 3)[0] == PASSAGES[0]
    assert [hit.title for hit in corpus.search("london", 5)] == ["London", "London", "Alan Turing"]
    assert corpus.search("cafe montreal", 1) == [PASSAGES[2]]
    assert len(corpus.search("london", 2)) == 2
    assert corpus.search("unheard", 3) == []
    assert corpus.search("london " + " ".join(f"w{n}" for n in range(5000)), 1) == [PASSAGES[1]]


@given(text=st.text() | st.text(alphabet='"*():^{}-+ \0\ud800aANDORNEAR', max_size=40))
@example("NEAR(")
@example("title: x")
@example("a AND")
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_text_makes_it_raise(corpus: Corpus, text: str) -> None:
    assert len(corpus.search(text, 2)) <= 2
    corpus.pages(text, 1)


@given(titles=st.lists(st.text(min_size=1), max_size=8))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_title_is_found_again(tmp_path: Path, titles: list[str]) -> None:
    assert build(tmp_path / "any.db", (Passage(title, "text") for title in titles)) == len(titles)
    with closing(Corpus(tmp_path / "any.db")) as corpus:
        assert all(corpus.pages(title, 1) for title in titles)


def test_readers_keep_their_index_when_a_build_fails_or_another_replaces_it(tmp_path: Path) -> None:
    path = tmp_path / "corpus.db"
    build(path, PASSAGES)

    def broken():  # type: ignore[no-untyped-def]
        yield PASSAGES[0]
        raise CorpusError("line 2 is bad", code="bad_line")

    with fails(CorpusError, "bad_line", "line 2"):
        build(path, broken())
    assert [file.name for file in tmp_path.iterdir()] == ["corpus.db"]
    with closing(Corpus(path)) as old:
        assert build(path, [Passage("New", "page")]) == 1
        assert old.pages("London", 1)
    with closing(Corpus(path)) as new:
        assert (new.pages("New", 2), new.pages("London", 1)) == ([Passage("New", "page")], [])


def test_what_is_not_a_corpus_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("not a database, but long enough to be taken for one" * 10)
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE t (x)")
    for name, code in (("none.db", "no_corpus"), ("text.db", "not_corpus"), ("other.db", "not_corpus")):
        with fails(CorpusError, code):
            Corpus(tmp_path / name)


def test_a_dump_becomes_an_index_and_progress_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_build, "BATCH", 50)
    (tmp_path / "dump.jsonl").write_text("".join(f'{{"title": "T{n}", "text": "topic{n % 7}"}}\n' for n in range(120)))
    dump, path, told = Dump(tmp_path / "dump.jsonl"), tmp_path / "new folder" / "i.sqlite", list[tuple[int, int]]()
    assert build(path, dump.passages(), lambda number: told.append((number, dump.done))) == 120
    assert [number for number, _ in told] == [50, 100, 120]
    assert 0 < told[0][1] < told[1][1] < told[2][1] == dump.total
    assert [file.name for file in path.parent.iterdir()] == ["i.sqlite"]
    with closing(Corpus(path)) as built:
        assert built.pages("T119", 2) == [Passage("T119", "topic0")]
        assert [hit.title for hit in built.search("topic3", 2)] == ["T3", "T10"]


def test_an_empty_dump_and_a_file_in_the_way_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n")
    with fails(CorpusError, "empty_dump"):
        build(tmp_path / "i.sqlite", Dump(tmp_path / "empty.jsonl").passages())
    with fails(CorpusError, "unwritable", "empty.jsonl/i.sqlite"):
        build(tmp_path / "empty.jsonl" / "i.sqlite", PASSAGES)
    (tmp_path / "folder" / "in the way").mkdir(parents=True)
    with fails(CorpusError, "unwritable", "folder"):
        build(tmp_path / "folder", PASSAGES)
    assert {file.name for file in tmp_path.iterdir()} == {"empty.jsonl", "folder"}
    with fails(CorpusError, "not_corpus", "empty.jsonl"):
        build(tmp_path / "empty.jsonl", PASSAGES)
    assert (tmp_path / "empty.jsonl").read_text() == "\n"


def test_rare_words_decide_and_common_ones_are_looked_for_together_and_in_titles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With limits as small as the corpus is: "the" is nearly everywhere, "stone" and "river" are common."""
    for name, value in (("MAX_RANKED", 150), ("MAX_COUNTED", 400)):
        monkeypatch.setattr(f"agentflow.tools.encyclopedia.corpus.{name}", value)
    passages = [Passage(f"P{n}", f"the {'stone' * (n % 2)} {'river' * (n % 3 == 0)} {n}") for n in range(480)]
    passages += [Passage("Stone River", "the river of stone"), Passage("Zanzibar", "the Zanzibar of stone and river")]
    build(tmp_path / "crowded.db", passages)
    crowded = Corpus(tmp_path / "crowded.db")
    assert crowded.search("the stone river of Zanzibar", 3)[0].title == "Zanzibar"
    assert [hit.title for hit in crowded.search("the stone 77", 3)] == ["P77"]
    assert [hit.title for hit in crowded.search("STONE, river", 3)] == ["Stone River"]
    assert len(crowded.search("unheard stone", 3)) == 1
    assert crowded.search("stone the unheard", 5)[0].title == "Stone River"
    assert len(crowded.search("the", 3)) == 3
