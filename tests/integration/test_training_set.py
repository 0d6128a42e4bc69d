"""The paper's training set, built with the hub's own client from a loopback server that speaks its protocol."""

import hashlib
import io
import json
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer

pytest.importorskip("pyarrow")
pytest.importorskip("huggingface_hub")

import pyarrow
from huggingface_hub import constants
from pyarrow import parquet

from agentflow.rl.apps.benchmark import benchmark
from benchmarks import training_set
from benchmarks.training_set import MixtureSource, TrainingSetError, build
from tests.failing import fails
from tests.fake_hub import REVISION, Hub

SMALL_NQ = MixtureSource("nq", "made/nq", "nq/train.jsonl", "question", "golden_answers", 3)
SMALL_MATH = MixtureSource("mathhard", "made/math", "data/train-*.parquet", "question", "final_answer", 4)


def questions(number: int) -> bytes:
    rows = [{"id": f"t_{n}", "question": f"who is {n}?", "golden_answers": [f"n {n}", f"N{n}"]} for n in range(number)]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def problems(start: int, number: int) -> bytes:
    columns = {
        "question": [f"Solve {n}." for n in range(start, start + number)],
        "final_answer": [str(n) for n in range(start, start + number)],
        "r1_solution_1": ["long"] * number,
    }
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), buffer)
    return buffer.getvalue()


@pytest.fixture
def small(httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Hub:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    math = {"data/train-0.parquet": problems(0, 3), "data/train-1.parquet": problems(3, 1)}
    return Hub(httpserver, {"made/nq": {"nq/train.jsonl": questions(3)}, "made/math": math})


def made(hub: Hub, out: Path, *sources: MixtureSource) -> int:
    return build(out, lambda _: None, sources or (SMALL_NQ, SMALL_MATH), hub.api)


def test_the_mixture_has_the_papers_columns_and_can_be_trained_on(small: Hub, tmp_path: Path) -> None:
    assert made(small, tmp_path / "data") == 7
    rows = parquet.read_table(tmp_path / "data" / "train.parquet").to_pylist()
    assert set(rows[0]) == {"id", "question", "chain", "result", "source", "extra_info"}
    assert len({row["id"] for row in rows}) == 7
    assert {row["source"] for row in rows} == {"nq", "mathhard"}
    assert [row["source"] for row in rows] != ["nq"] * 3 + ["mathhard"] * 4
    one = next(row for row in rows if row["id"] == "nq-1")
    assert one["result"] == "n 1; N1"
    assert one["extra_info"] == {"ground_truth": "n 1; N1", "idx": 1}
    path = str(tmp_path / "data" / "train.parquet")
    tasks = benchmark(path, test=path, judge="embedded", frozen="embedded").tasks("train", 7)
    assert ["; ".join([task.gold, *task.data["aliases"]]) for task in tasks] == [row["result"] for row in rows]


def test_a_second_build_takes_the_same_revisions_and_downloads_nothing(
    small: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(small, tmp_path / "data")
    first = (tmp_path / "data" / "train.parquet").read_bytes()
    pins = json.loads((tmp_path / "data" / "sources.json").read_text())
    assert pins["nq"]["revision"] == REVISION
    assert pins["nq"]["files"]["nq/train.jsonl"] == hashlib.sha256(questions(3)).hexdigest()
    assert len(small.served) == 3
    monkeypatch.setattr(training_set, "find", None)  # the newest revision is not asked for
    made(small, tmp_path / "data")
    assert len(small.served) == 3
    assert (tmp_path / "data" / "train.parquet").read_bytes() == first


@pytest.mark.parametrize(
    ("file", "answers", "rows", "code", "named"),
    [
        ("nq/train.jsonl", "golden_answers", 79_168, "other_size", (3, "0123", "79,168")),
        ("nq/train.jsonl", "solution", 3, "no_columns", ("question", "solution")),
        ("nq/none-*.jsonl", "golden_answers", 3, "no_file", ("made/nq", "nq/none-*.jsonl")),
    ],
)
def test_another_set_is_refused_and_what_was_downloaded_stays(
    file: str, answers: str, rows: int, code: str, named: tuple[object, ...], small: Hub, tmp_path: Path
) -> None:
    with fails(TrainingSetError, code, *named):
        made(small, tmp_path / "data", SMALL_MATH, MixtureSource("nq", "made/nq", file, "question", answers, rows))
    assert not (tmp_path / "data" / "train.parquet").exists()
    made(small, tmp_path / "data")
    assert len(small.served) == 3


def test_pins_that_cannot_be_read_are_one_line(small: Hub, tmp_path: Path) -> None:
    (tmp_path / "sources.json").write_text('{"nq": 3}')
    with fails(TrainingSetError, "bad_pins"):
        made(small, tmp_path)
