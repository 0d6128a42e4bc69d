"""The index of an encyclopedia: what it finds, and builds that are stopped, killed and resumed."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agentflow.tools.encyclopedia import corpus_build
from agentflow.tools.encyclopedia.corpus import Corpus, CorpusError, Passage
from agentflow.tools.encyclopedia.corpus_build import Progress, build, build_from_dump, partial_of
from agentflow.tools.encyclopedia.dumps import JsonLines, open_dump
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
    assert {title: PASSAGES.index(corpus.page(title)) for title in titles} == titles  # type: ignore[arg-type]
    assert corpus.page("Alan") is None
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: (corpus.search("london", 1), corpus.page("London")), range(200)))
    assert found == [([PASSAGES[1]], PASSAGES[1])] * 200
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
    corpus.page(text)


@given(titles=st.lists(st.text(min_size=1), max_size=8))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_title_is_found_again(tmp_path: Path, titles: list[str]) -> None:
    build(tmp_path / "any.db", (Passage(title, "text") for title in titles))
    with closing(Corpus(tmp_path / "any.db")) as corpus:
        assert len(corpus) == len(titles)
        assert all(corpus.page(title) for title in titles)


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
        assert len(old) == 5
        build(path, [Passage("New", "page")])
        assert old.page("London")
    with closing(Corpus(path)) as new:
        assert (len(new), new.page("London")) == (1, None)


def test_what_is_not_a_corpus_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("not a database, but long enough to be taken for one" * 10)
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE t (x)")
    for name, code in (("none.db", "no_corpus"), ("text.db", "not_corpus"), ("other.db", "not_corpus")):
        with fails(CorpusError, code):
            Corpus(tmp_path / name)


# Builds from a dump.


NUMBERED = [Passage(f"Title {n}", f"Passage number {n} on topic{n % 7}.", str(n)) for n in range(500)]


@pytest.fixture
def dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(corpus_build, "BATCH", 50)
    return write(tmp_path / "dump.jsonl", NUMBERED)


def write(path: Path, passages: list[Passage]) -> Path:
    lines = (json.dumps({"id": p.id, "title": p.title, "text": p.text}) for p in passages)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def rows(path: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return [
            *connection.execute("SELECT * FROM passage ORDER BY number"),
            *connection.execute("SELECT rowid, bm25(words) FROM words WHERE words MATCH 'topic3' ORDER BY rowid"),
            *connection.execute("SELECT * FROM common ORDER BY term"),
        ]


class Stops(JsonLines):
    """A dump whose reading is interrupted."""

    after = 230

    def articles(self, start: int = 0) -> Iterator[tuple[int, list[Passage]]]:
        for number, article in enumerate(super().articles(start)):
            if number == self.after:
                raise KeyboardInterrupt
            yield article


def test_a_dump_becomes_an_index_and_progress_is_told(dump: Path, tmp_path: Path) -> None:
    told: list[Progress] = []
    assert build_from_dump(tmp_path / "new folder" / "i.sqlite", open_dump(dump), told.append) == 500
    assert [one.passages for one in told] == [*range(0, 501, 50), 500]
    assert [one.phase for one in told] == ["reading"] * 11 + ["indexing"]
    assert all(before.done <= after.done for before, after in pairwise(told))
    assert told[-1].done == told[-1].total == dump.stat().st_size
    assert [file.name for file in (tmp_path / "new folder").iterdir()] == ["i.sqlite"]
    build(tmp_path / "whole.sqlite", NUMBERED)
    assert rows(tmp_path / "new folder" / "i.sqlite") == rows(tmp_path / "whole.sqlite")


def test_a_build_that_was_stopped_goes_on_and_another_dump_begins_anew(dump: Path, tmp_path: Path) -> None:
    path, told = tmp_path / "i.sqlite", list[Progress]()
    with pytest.raises(KeyboardInterrupt):
        build_from_dump(path, Stops(dump), lambda _: None)
    assert not path.exists()
    assert build_from_dump(path, open_dump(dump), told.append) == 500
    assert told[0].passages == 200  # whole batches
    assert not partial_of(path).exists()
    build(tmp_path / "whole.sqlite", NUMBERED)
    assert rows(path) == rows(tmp_path / "whole.sqlite")
    with pytest.raises(KeyboardInterrupt):
        build_from_dump(path, Stops(dump), lambda _: None)
    assert partial_of(path).exists()
    write(dump, NUMBERED[:90])
    assert build_from_dump(path, open_dump(dump), lambda _: None) == 90


@pytest.mark.process
@pytest.mark.parametrize("seconds", [0.2, 0.6, 1.0])
def test_a_build_that_was_killed_goes_on(tmp_path: Path, seconds: float) -> None:
    """The process is killed while reading, merging or renaming; the files are then always usable."""
    dump = write(tmp_path / "dump.jsonl", [Passage(f"T{n}", f"word{n % 13} " * 50, str(n)) for n in range(3000)])
    program = (
        "import sys, pathlib\nfrom agentflow.tools.encyclopedia import corpus_build, dumps\ncorpus_build.BATCH = 20\n"
        "print('go', flush=True)\n"
        "corpus_build.build_from_dump(pathlib.Path(sys.argv[1]), dumps.open_dump(pathlib.Path(sys.argv[2])), "
        "lambda _: None)"
    )
    path = tmp_path / "i.sqlite"
    with subprocess.Popen([sys.executable, "-c", program, path, dump], stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        time.sleep(seconds)
        os.kill(process.pid, signal.SIGKILL)
    if not path.exists():
        assert build_from_dump(path, open_dump(dump), lambda _: None) == 3000
    with closing(Corpus(path)) as built:
        assert len(built) == 3000
        assert built.page("T2999")
        assert len(built.search("word5", 5)) == 5


def test_two_builds_of_one_index_do_not_mix(dump: Path, tmp_path: Path) -> None:
    path = tmp_path / "i.sqlite"

    def meanwhile(progress: Progress) -> None:
        if progress.passages == 100:
            with fails(CorpusError, "locked"):
                build_from_dump(path, open_dump(dump), lambda _: None)

    assert build_from_dump(path, open_dump(dump), meanwhile) == 500


def test_an_empty_dump_and_a_file_in_the_way_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n")
    with fails(CorpusError, "empty_dump"):
        build_from_dump(tmp_path / "i.sqlite", open_dump(tmp_path / "empty.jsonl"), lambda _: None)
    partial_of(tmp_path / "j.sqlite").write_text("not a database, and long enough to be told apart" * 50)
    with fails(CorpusError, "unwritable", "j.sqlite", ".partial"):
        build_from_dump(tmp_path / "j.sqlite", open_dump(write(tmp_path / "d.jsonl", NUMBERED)), lambda _: None)


# Queries of common words.


@pytest.fixture
def crowded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    """A corpus with limits as small as it is: "the" is nearly everywhere, "stone" and "river" are common."""
    for name, value in (("MAX_RANKED", 150), ("MAX_COUNTED", 400)):
        monkeypatch.setattr(f"agentflow.tools.encyclopedia.corpus.{name}", value)
    passages = [Passage(f"P{n}", f"the {'stone' * (n % 2)} {'river' * (n % 3 == 0)} {n}") for n in range(480)]
    passages += [Passage("Stone River", "the river of stone"), Passage("Zanzibar", "the Zanzibar of stone and river")]
    build(tmp_path / "crowded.db", passages)
    return Corpus(tmp_path / "crowded.db")


def test_rare_words_decide_and_common_ones_are_looked_for_together_and_in_titles(crowded: Corpus) -> None:
    assert crowded.search("the stone river of Zanzibar", 3)[0].title == "Zanzibar"
    assert [hit.title for hit in crowded.search("the stone 77", 3)] == ["P77"]
    assert [hit.title for hit in crowded.search("STONE, river", 3)] == ["Stone River"]
    assert len(crowded.search("unheard stone", 3)) == 1
    assert crowded.search("stone the unheard", 5)[0].title == "Stone River"
    assert len(crowded.search("the", 3)) == 3


def test_the_numbers_of_common_words_are_in_the_index(crowded: Corpus) -> None:
    numbers = dict(crowded._rows("SELECT term, passages FROM common"))
    assert numbers == {"the": 482, "stone": 242, "river": 162}
    assert crowded._passages_with("Stöne") == 242  # as the tokenizer sees it
