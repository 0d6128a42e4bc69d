"""Matrix products in which the bits of a row's result depend neither on the other rows nor on how many there are.

A BLAS selects kernels by the shape of a product, and a kernel may sum in different orders at different positions. Which
kernels do so depends on the processor, so every shape is tested before it is used: one row is placed at all positions
of a product, and only heights at which all results are bitwise equal are accepted. Fewer rows are padded to the next
accepted height. If no layout of the matrices has such heights, each row is a separate product.

OpenBLAS 0.3.31 passes with its kernels for SSE4 and AVX. Its AVX-512 kernels treat the last columns differently if they
do not fill a register. Its AVX2 kernels sum even and odd indices separately if four to eleven rows remain of twelve,
and for every other six rows in the first and last eight columns of a block.
"""

import functools
import threading
from dataclasses import dataclass

import numpy as np
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from agentflow.rl.micro.kv_cache import BLOCK, Floats

INNER = 256
"""Maximum inner dimension of one product: a BLAS splits longer ones itself, but only for some heights."""

TALL = range(128, 145)
"""Candidates for the largest height of a layout; a layout is used if one of them is accepted."""

COMPARED = 64
"""Minimum number of values that a trial compares."""

Shape = tuple[int, int]
"""Shape (out, in) of a Hugging Face weight."""


@dataclass(frozen=True)
class Column:
    """Some columns of a weight matrix, split along the inner dimension into pieces [in, columns]."""

    pieces: tuple[tuple[slice, Floats], ...]
    used: slice
    """The columns that are not zero padding."""

    def product(self, x: Floats) -> Floats:
        """Multiply x [..., in] by the columns."""
        (first, piece), *others = self.pieces
        result: Floats = x[..., first] @ piece
        for part, piece in others:
            result += x[..., part] @ piece
        return result[..., self.used]


Matrix = tuple[Column, ...]


@dataclass(frozen=True)
class Layout:
    """Rule for splitting matrices into columns.

    The width is a multiple of `multiple` and at most `widest`, including at least `guard` zero columns on both sides.
    """

    guard: int
    multiple: int
    widest: int

    def cut(self, weight: Floats) -> Matrix:
        """Split a Hugging Face weight [out, in] into columns."""
        parts = np.array_split(weight, _parts(len(weight), self.widest - 2 * self.guard))
        return tuple(self._column(part) for part in parts)

    def trials(self, shapes: frozenset[Shape]) -> list[tuple[Floats, Column]]:
        """Return a random row and column for every size into which weights of these shapes are split.

        Narrow columns get several trials, since a few values may be equal by chance even if summed in different orders.
        """
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
"""Layouts to try, the fastest first."""


class Products:
    """Batch-invariant products with matrices of given shapes, tested in this process."""

    def __init__(self, shapes: frozenset[Shape]) -> None:
        self._fits: dict[int, bool] = {}
        self.tallest = 0
        """Height of the largest product; 0 if each row is a separate product."""
        for self.layout in LAYOUTS:
            self._trials = self.layout.trials(shapes)
            for height in TALL:
                found = _alike(self._trials, height)
                if found:
                    self._expected, self.tallest = found, height
                    return

    def height(self, rows: int) -> int:
        """Return the height to which `rows` rows must be padded."""
        if not self.tallest:
            return rows
        whole, rest = divmod(rows, self.tallest)
        if rest:
            rest = next((height for height in range(rest, self.tallest) if self._fit(height)), self.tallest)
        return whole * self.tallest + rest

    def product(self, x: Floats, matrix: Matrix) -> Floats:
        """Multiply x [height, in] by `matrix`."""
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
"""Cached constructor of Products, so that each set of shapes is tested once."""


@functools.cache
def fit_together(group: int, dim: int, tokens: int) -> bool:
    """Return whether attention of `group` queries per token has the same bits for `tokens` tokens as for one."""
    chance = np.random.default_rng(0)
    for inner, out in ((dim, BLOCK), (BLOCK, dim)):
        rows, matrix = chance.random((group, inner), np.float32), chance.random((inner, out), np.float32)
        with one_blas_thread:
            one, all_of_them = rows @ matrix, np.tile(rows, (tokens, 1)) @ matrix
        if not (all_of_them.reshape(tokens, group, out) == one).all():
            return False
    return True


class _OneThread:
    """Limit of BLAS to one thread: products are too small for more, and the number of threads would affect the bits.

    Overlapping users share it, from the first to the last of them. A separate thread holds it, because threadpoolctl
    lets only the thread that set a limit change it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._unused = threading.Event()

    def __enter__(self) -> None:
        with self._lock:
            if not self._users:
                self._unused.clear()
                limited = threading.Event()
                self._holder = threading.Thread(target=self._hold, args=[limited], name="one-blas-thread", daemon=True)
                self._holder.start()
                limited.wait()
            self._users += 1

    def __exit__(self, *_: object) -> None:
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


one_blas_thread = _OneThread()


@functools.cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


def _alike(trials: list[tuple[Floats, Column]], height: int) -> list[Floats]:
    """Return the result of each trial's row if it is equal at all positions of a product of `height`; else []."""
    found = []
    with one_blas_thread:
        for row, column in trials:
            results = column.product(np.tile(row, (height, 1)))
            if not (results == results[0]).all():
                return []
            found.append(results[0])
    return found


def _joined(parts: list[Floats], axis: int) -> Floats:
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis)


def _parts(total: int, most: int) -> int:
    """Return the number of parts of at most `most` into which `total` is split."""
    return -(-total // most)


def _sizes(total: int, most: int) -> set[int]:
    """Return the sizes of these parts."""
    return {total // _parts(total, most), -(-total // _parts(total, most))}
