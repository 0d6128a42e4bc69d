import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info

from agentflow.rl.micro import batch_invariance, products
from agentflow.rl.micro.kv_cache import Floats
from agentflow.rl.micro.model import MicroConfig, MicroModel
from agentflow.rl.micro.products import Products, one_blas_thread
from tests.cases import table
from tests.pages import ROOT
from tests.processes import python
from tests.unit.rl.micro import checkpoint

KERNELS = {
    "Prescott": "pni",
    "Nehalem": "sse4_2",
    "Sandybridge": "avx",
    "Haswell": "avx2",
    "SkylakeX": "avx512f",
    "Cooperlake": "avx512_bf16",
    "Sapphirerapids": "amx_tile",
}
"""OpenBLAS's sets of kernels for x86, each with the flag of a processor that runs it. A build takes the best that it
has of those up to the one asked for."""


def _flags() -> set[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return set()
    return next((set(line.partition(":")[2].split()) for line in lines if line.startswith("flags")), set())


@pytest.mark.process
@pytest.mark.parametrize("kernels", [name for name, flag in KERNELS.items() if flag in _flags()])
def test_replies_have_the_same_bits_whatever_runs_beside(kernels: str) -> None:
    environment = {**os.environ, "OPENBLAS_CORETYPE": kernels}
    done = python("-W", "ignore", "-m", "tests.unit.rl.micro.batches", 1, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr


def _rows(n: int, seed: int, inner: int) -> Floats:
    return np.random.default_rng(seed).standard_normal((n, inner), np.float32)


@settings(max_examples=30)
@example(out=1, inner=72, places=[(1, 0), (2, 0)])  # of one number each, two orders of sums were alike by chance
@given(
    out=st.integers(1, 1700),
    inner=st.integers(1, 600),
    places=st.lists(st.tuples(st.integers(1, 150), st.integers(0, 149)), min_size=2, max_size=4),
)
def test_a_row_has_the_same_product_in_any_place(out: int, inner: int, places: list[tuple[int, int]]) -> None:
    made, weight, row = Products(frozenset({(out, inner)})), _rows(out, 0, inner), _rows(1, 1, inner)[0]
    matrix, found = made.layout.cut(weight), []
    for beside, (rows, place) in enumerate(places):
        x = _rows(made.height(rows), beside, inner)
        x[place % rows] = row
        with one_blas_thread:
            found.append(made.product(x, matrix)[place % rows])
    assert all(np.array_equal(one, found[0]) for one in found)
    np.testing.assert_allclose(found[0], weight @ row, atol=1e-3)


def _model(**changes: Any) -> MicroModel:
    config = {**checkpoint.CONFIG, **changes}
    return MicroModel(MicroConfig.parse(config), checkpoint.weights(config))


@pytest.fixture
def untried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is known from other tests, nor is to them what this one finds."""
    monkeypatch.setattr(batch_invariance, "_TRIED", {})
    monkeypatch.setattr("agentflow.rl.micro.model.products_for", Products)


@pytest.mark.usefixtures("untried")
@pytest.mark.parametrize("changes", table(__file__, "shapes.txt"))
def test_a_model_of_any_shape_is_batch_invariant(changes: dict[str, Any]) -> None:
    assert batch_invariance.batch_invariant(_model(**changes))


@pytest.mark.usefixtures("untried")
def test_where_no_height_will_do_each_row_is_a_product_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = _model().prefill(_model().new_cache(), 0, [5, 6, 7], 0)
    monkeypatch.setattr(products, "_alike", lambda trials, height: [])
    monkeypatch.setattr("agentflow.rl.micro.model.fit_together", lambda group, dim, tokens: tokens == 1)
    model = _model()
    assert batch_invariance.batch_invariant(model)
    np.testing.assert_allclose(model.prefill(model.new_cache(), 0, [5, 6, 7], 0), expected, rtol=1e-4, atol=1e-4)


def test_blas_has_one_thread_until_the_last_user_leaves() -> None:
    def threads() -> set[int]:
        return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}

    def use() -> None:
        with one_blas_thread:
            entered.set()
            leave.wait()

    before, entered, leave = threads(), threading.Event(), threading.Event()
    first = threading.Thread(target=use)
    with one_blas_thread:
        first.start()
        entered.wait()
        assert threads() == {1}
    assert threads() == {1}
    leave.set()
    first.join()
    assert threads() == before
