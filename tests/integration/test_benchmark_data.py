"""Benchmarks are downloaded with the hub's own client from a loopback server that speaks its protocol, and checked."""

import hashlib
import json
import os
import subprocess
from pathlib import Path

import pytest
from huggingface_hub import constants
from pytest_httpserver import HTTPServer

from agentflow.evals.benchmarks import store
from agentflow.evals.benchmarks.catalogue import BENCHMARKS, benchmark
from agentflow.evals.benchmarks.errors import BenchmarkError, TokenNeeded
from agentflow.evals.benchmarks.store import DatasetSource
from tests.failing import fails
from tests.fake_hub import REVISION, Hub
from tests.processes import python

TWO = b'{"question": "Where is 1?", "answer": "Rome"}\n{"question": "Where is 2?", "answer": "Oslo"}\n'
SOURCE = DatasetSource("made/places", ("dev.jsonl",), 2)


@pytest.fixture
def hub(httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Hub:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    return Hub(httpserver, {"made/places": {"dev.jsonl": TWO}})


def get(hub: Hub, source: DatasetSource = SOURCE) -> store.Lock:
    return store.get("musique", source, lambda paths: len(benchmark("musique").read_files(paths)), hub.api)


def test_a_download_is_recorded_and_needs_no_network_again_until_a_file_is_gone(hub: Hub) -> None:
    lock = get(hub)
    assert lock == store.lock_of("musique")
    assert (lock.revision, lock.files) == (REVISION, {"dev.jsonl": hashlib.sha256(TWO).hexdigest()})
    assert benchmark("musique").state() == "downloaded"
    assert [one.gold for one in benchmark("musique").tasks()] == ["Rome", "Oslo"]
    assert benchmark("hotpotqa").state() == "not downloaded"
    served = len(hub.served)
    hub.refuse = True
    assert get(hub).rows == 2
    assert len(hub.served) == served == 1
    hub.refuse = False
    (store.folder("musique") / "dev.jsonl").unlink()
    with fails(BenchmarkError, "not_downloaded"):
        benchmark("musique").tasks()
    get(hub)
    assert len(benchmark("musique").tasks()) == 2


def test_a_download_that_is_cut_off_goes_on_where_it_stopped(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 8)
    hub.cut = 1
    assert get(hub).files == {"dev.jsonl": hashlib.sha256(TWO).hexdigest()}
    assert len(hub.served) == 2
    assert len(TWO) <= hub.sent < len(TWO) + 8


def test_a_file_that_was_changed_is_refused(hub: Hub) -> None:
    get(hub)
    (store.folder("musique") / "dev.jsonl").write_bytes(TWO + TWO)
    with fails(BenchmarkError, "changed_file", "dev.jsonl"):
        get(hub)


@pytest.mark.parametrize(
    ("file", "rows", "checksums", "code", "named"),
    [
        ("dev.jsonl", 2, {"dev.jsonl": "0" * 64}, "damaged_file", ("dev.jsonl",)),
        ("dev.jsonl", 3, {}, "other_size", (2, "0123", 3)),
        ("test.jsonl", 2, {}, "no_file", ("made/places", "test.jsonl")),
    ],
)
def test_another_content_than_is_known_is_refused(
    file: str, rows: int, checksums: dict[str, str], code: str, named: tuple[object, ...], hub: Hub
) -> None:
    with fails(BenchmarkError, code, *named):
        get(hub, DatasetSource("made/places", (file,), rows, checksums=checksums))
    assert store.lock_of("musique") is None
    assert benchmark("musique").state() == "not downloaded"


def test_a_gated_data_set_takes_the_users_token(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.token = "hf_made_for_this_test"
    gated = DatasetSource("made/places", ("dev.jsonl",), 2, gated=True)
    with fails(TokenNeeded, "", "/datasets/made/places", "HF_TOKEN"):
        get(hub, gated)
    monkeypatch.setenv("HF_TOKEN", hub.token)
    assert get(hub, gated).rows == 2


def test_a_lock_that_cannot_be_read_is_one_line(hub: Hub) -> None:
    get(hub)
    (store.folder("musique") / "lock.json").write_text("{")
    with fails(BenchmarkError, "bad_lock", "agentflow data get musique"):
        benchmark("musique").tasks()


def command(*arguments: str, cache: Path, endpoint: str = "http://127.0.0.1:9") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HF_ENDPOINT": endpoint, "HF_HOME": str(cache), "XDG_CACHE_HOME": str(cache)}
    environment.pop("HF_TOKEN", None)
    return python("-m", "agentflow", "data", *arguments, env=environment)


def test_the_command_gets_medqa_and_lists_it(httpserver: HTTPServer, tmp_path: Path) -> None:
    rows = [{"question": f"Organ {n}?", "options": {"A": "liver", "B": "skin"}, "answer_idx": "B"} for n in range(1273)]
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    source = BENCHMARKS["medqa"].source
    assert source
    Hub(httpserver, {source.repository: {source.files[0]: content}}, revision=source.revision)
    done = command("get", "medqa", cache=tmp_path, endpoint=httpserver.url_for("").rstrip("/"))
    assert done.returncode == 0, done.stderr
    assert "medqa: 1,273 questions in" in done.stdout
    listed = {line.split()[0]: line for line in command("list", cache=tmp_path).stdout.splitlines()}
    assert set(BENCHMARKS) < set(listed)
    assert " downloaded " in listed["medqa"]
    assert "1,273" in listed["medqa"]
    assert "not downloaded" in listed["gaia"]
    assert "generated" in listed["game24"]


def test_without_a_network_each_is_one_line_and_what_is_generated_is_there(tmp_path: Path) -> None:
    done = command("get", "all", cache=tmp_path)
    assert done.returncode == 1
    problems = done.stderr.splitlines()
    assert len(problems) == 9
    assert all("the hub is out of reach" in line and "is downloaded once" in line for line in problems)
    assert done.stdout.splitlines() == [
        "game24: 1,362 questions, generated",
        "atlas: 600 questions, generated",
    ]
