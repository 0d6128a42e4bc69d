"""Builds that are stopped, killed and resumed, and queries that stay cheap however common their words are."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from agentflow.tools.encyclopedia import corpus, corpus_build
from agentflow.tools.encyclopedia.corpus import Corpus, CorpusError, Passage
from agentflow.tools.encyclopedia.corpus_build import Progress, build, build_from_dump, partial_of
from agentflow.tools.encyclopedia.dumps import JsonLines, open_dump
from tests.failing import fails

PASSAGES = [Passage(f"Title {n}", f"Passage number {n} on topic{n % 7}.", str(n)) for n in range(500)]


@pytest.fixture
def dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(corpus_build, "BATCH", 50)
    return write(tmp_path / "dump.jsonl", PASSAGES)


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
    build(tmp_path / "whole.sqlite", PASSAGES)
    assert rows(tmp_path / "new folder" / "i.sqlite") == rows(tmp_path / "whole.sqlite")


def test_a_build_that_was_stopped_goes_on_and_another_dump_begins_anew(dump: Path, tmp_path: Path) -> None:
    path, told = tmp_path / "i.sqlite", list[Progress]()
    with pytest.raises(KeyboardInterrupt):
        build_from_dump(path, Stops(dump), lambda _: None)
    assert not path.exists()
    assert build_from_dump(path, open_dump(dump), told.append) == 500
    assert told[0].passages == 200  # whole batches
    assert not partial_of(path).exists()
    build(tmp_path / "whole.sqlite", PASSAGES)
    assert rows(path) == rows(tmp_path / "whole.sqlite")
    with pytest.raises(KeyboardInterrupt):
        build_from_dump(path, Stops(dump), lambda _: None)
    assert partial_of(path).exists()
    write(dump, PASSAGES[:90])
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
    with Corpus(path) as built:
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
        build_from_dump(tmp_path / "j.sqlite", open_dump(write(tmp_path / "d.jsonl", PASSAGES)), lambda _: None)


# Queries of common words.


@pytest.fixture
def crowded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    """A corpus with limits as small as it is: "the" is nearly everywhere, "stone" and "river" are common."""
    for name, value in (("MAX_RANKED", 150), ("MAX_COUNTED", 400)):
        monkeypatch.setattr(corpus, name, value)
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
