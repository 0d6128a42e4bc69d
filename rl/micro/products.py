"""Matrix products in which the bits of a row's result depend neither on the other rows nor on how many there are.

A BLAS picks its kernels by the shape of a product, and a kernel may sum at some places in another order than at others.
Which do so differs from one processor to the next, so nothing is assumed: every shape is tried before it is used. One
row is put at all places of a product, and only heights at which all results are the same bits are taken; fewer rows
are padded to the next of them. Where no layout of the matrices has such heights, each row is a product of its own.

OpenBLAS 0.3.31 needs no care with its kernels for SSE4 and AVX. Those for AVX-512 treat the last columns otherwise when
they fill no register. Those for AVX2 sum even and odd indices apart where four to eleven rows are left of twelve, and
for every other six rows in the first and last eight columns of a block.
"""

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from agentflow.rl.micro.kv_cache import BLOCK, Floats

INNER = 256
"""Longest inner dimension of one product: a BLAS cuts longer ones itself, for some heights and not for others."""

TALL = range(128, 145)
"""One of these heights has to do for a layout to be used."""

COMPARED = 64
"""Numbers that a trial compares, at least."""

Shape = tuple[int, int]
"""Of a Hugging Face weight: out, in."""


@dataclass(frozen=True)
class Column:
    """Some columns of a weight matrix, in pieces [in, columns] of parts of the inner dimension."""

    pieces: tuple[tuple[slice, Floats], ...]
    used: slice
    """The columns that are not zeros."""

    def product(self, x: Floats) -> Floats:
        """x [..., in] times the matrix."""
        (first, piece), *others = self.pieces
        result: Floats = x[..., first] @ piece
        for part, piece in others:
            result += x[..., part] @ piece
        return result[..., self.used]


Matrix = tuple[Column, ...]


@dataclass(frozen=True)
class Layout:
    """How matrices are cut into columns: a multiple of `multiple` wide and at most `widest`, `guard` or more columns of
    zeros at both sides included."""

    guard: int
    multiple: int
    widest: int

    def cut(self, weight: Floats) -> Matrix:
        """A Hugging Face weight."""
        parts = np.array_split(weight, _parts(len(weight), self.widest - 2 * self.guard))
        return tuple(self._column(part) for part in parts)

    def trials(self, shapes: frozenset[Shape]) -> list[tuple[Floats, Column]]:
        """A row and a column of every size that weights of these shapes are cut into; several where a column is
        narrow, since a few numbers may come out alike in another order of sums too."""
        chance = np.random.default_rng(0)
        sizes = {
            (width, inner)
            for out, into in shapes
            for width in _sizes(out, self.widest - 2 * self.guard)
            for inner in _sizes(into, INNER)
        }
        return [
            (chance.random(inner, np.float32), self._column(chance.random((width, inner), np.float32)))
            for width, inner in sorted(sizes)
            for _ in range(_parts(COMPARED, width))
        ]

    def _column(self, weight: Floats) -> Column:
        width, inner = weight.shape
        zeros = (0, 0), (self.guard, self.guard + -(width + 2 * self.guard) % self.multiple)
        parts = np.array_split(np.arange(inner), _parts(inner, INNER))
        pieces = [(slice(part[0], part[-1] + 1), np.pad(weight.T[part], zeros)) for part in parts]
        return Column(tuple(pieces), slice(self.guard, self.guard + width))


LAYOUTS = (Layout(guard=0, multiple=64, widest=1536), Layout(guard=8, multiple=16, widest=320))
"""The fastest first."""


class Products:
    """How this process multiplies rows by matrices of some shapes."""

    def __init__(self, shapes: frozenset[Shape]) -> None:
        self._fits: dict[int, bool] = {}
        self.tallest = 0
        """Rows of the largest product; 0 where each row is a product of its own."""
        for self.layout in LAYOUTS:
            self._trials = self.layout.trials(shapes)
            for height in TALL:
                found = _alike(self._trials, height)
                if found:
                    self._expected, self.tallest = found, height
                    return

    def height(self, rows: int) -> int:
        """The number of rows that so many are padded to."""
        if not self.tallest:
            return rows
        whole, rest = divmod(rows, self.tallest)
        if rest:
            rest = next((height for height in range(rest, self.tallest) if self._fit(height)), self.tallest)
        return whole * self.tallest + rest

    def product(self, x: Floats, matrix: Matrix) -> Floats:
        """x [height, in] times `matrix`."""
        if not self.tallest:
            return _joined([column.product(x[:, None])[:, 0] for column in matrix], axis=1)
        if len(x) <= self.tallest and len(matrix) == 1:
            return matrix[0].product(x)
        tiles = (x[first : first + self.tallest] for first in range(0, len(x), self.tallest))
        return _joined([_joined([column.product(tile) for column in matrix], axis=1) for tile in tiles], axis=0)

    def _fit(self, height: int) -> bool:
        if height not in self._fits:
            found = _alike(self._trials, height)
            self._fits[height] = bool(found) and all(map(np.array_equal, found, self._expected))
        return self._fits[height]


products_for = functools.cache(Products)
"""Those for some shapes, which are tried once."""


@functools.cache
def fit_together(group: int, dim: int, tokens: int) -> bool:
    """Whether attention to a block, for `group` queries of each of so many tokens, has the same bits as for one."""
    chance = np.random.default_rng(0)
    for inner, out in ((dim, BLOCK), (BLOCK, dim)):
        rows, matrix = chance.random((group, inner), np.float32), chance.random((inner, out), np.float32)
        with one_blas_thread():
            one, all_of_them = rows @ matrix, np.tile(rows, (tokens, 1)) @ matrix
        if not (all_of_them.reshape(tokens, group, out) == one).all():
            return False
    return True


class _OneThread:
    """A limit of BLAS from the first to the last of overlapping users. It has a thread to hold it: threadpoolctl lets
    nobody but the thread that set a limit change it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._unused = threading.Event()

    def enter(self) -> None:
        with self._lock:
            if not self._users:
                self._unused.clear()
                limited = threading.Event()
                self._holder = threading.Thread(target=self._hold, args=[limited], name="one-blas-thread", daemon=True)
                self._holder.start()
                limited.wait()
            self._users += 1

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                self._unused.set()
                self._holder.join()

    def _hold(self, limited: threading.Event) -> None:
        try:
            with _blas().limit(limits=1):
                limited.set()
                self._unused.wait()
        finally:
            limited.set()


_one_thread = _OneThread()


@functools.cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Take BLAS its own threads: products here are too small for them, and their number would be in the bits."""
    _one_thread.enter()
    try:
        yield
    finally:
        _one_thread.leave()


def _alike(trials: list[tuple[Floats, Column]], height: int) -> list[Floats]:
    """The result of each trial's row, if it is the same at all places of a product of that height; else nothing."""
    found = []
    with one_blas_thread():
        for row, column in trials:
            results = column.product(np.tile(row, (height, 1)))
            if not (results == results[0]).all():
                return []
            found.append(results[0])
    return found


def _joined(parts: list[Floats], axis: int) -> Floats:
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis)


def _parts(total: int, most: int) -> int:
    """Into how many parts of at most that size it is cut."""
    return -(-total // most)


def _sizes(total: int, most: int) -> set[int]:
    """The sizes of those parts."""
    return {total // _parts(total, most), -(-total // _parts(total, most))}
