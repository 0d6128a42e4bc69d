"""KV cache of many sequences.

Each sequence has a slot, whose positions are used in blocks of `BLOCK`. Keys are stored transposed, so that products
need no copy. Unwritten positions are zero and never undefined, because masked attention multiplies them by zero.
"""

import ctypes
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

BLOCK = 64
"""Number of positions in a block."""


def whole_blocks(positions: int) -> int:
    """Round up a number of positions to whole blocks."""
    return -(-positions // BLOCK) * BLOCK


@dataclass(frozen=True)
class Snapshot:
    """Copy of the first blocks of a sequence: keys [layer, KV head, dim, position], values with dim last."""

    keys: Floats
    values: Floats


class KVCache:
    """Cache of keys [layer, slot, KV head, dim, position] and values [layer, slot, KV head, position, dim]."""

    def __init__(self, layers: int, heads: int, head_dim: int) -> None:
        self.keys: Floats = np.zeros((layers, 1, heads, head_dim, BLOCK), np.float32)
        self.values: Floats = np.zeros((layers, 1, heads, BLOCK, head_dim), np.float32)

    def reserve(self, slots: int, positions: int) -> None:
        """Grow the cache, by doubling, to slots 0..slots-1 of `positions` each; contents are kept."""
        have_slots, have = self.values.shape[1], self.values.shape[3]
        if slots <= have_slots and positions <= have:
            return
        slots, have = _doubled(have_slots, slots), _doubled(have, positions)
        layers, _, heads, dim, _ = self.keys.shape
        self.keys = _grown(self.keys, (layers, slots, heads, dim, have))
        self.values = _grown(self.values, (layers, slots, heads, have, dim))

    def write(self, layer: int, slots: slice, positions: Ints, keys: Floats, values: Floats) -> None:
        """Store keys and values [n, KV head, dim] of n tokens at `positions`, all of one slot or one of each slot."""
        slot = np.arange(slots.start, slots.stop)
        self.keys[layer][slot, :, :, positions] = keys
        self.values[layer][slot, :, positions] = values

    def read(self, layer: int, slots: slice, end: int) -> tuple[Floats, Floats]:
        """Return views of the keys and values of the first `end` positions."""
        return self.keys[layer, slots, ..., :end], self.values[layer, slots, :, :end]

    def copy(self, source: int, target: int, positions: int) -> None:
        """Copy the first `positions` of one slot to another, rounded up to whole blocks."""
        end = whole_blocks(positions)
        self.keys[:, target, ..., :end] = self.keys[:, source, ..., :end]
        self.values[:, target, :, :end] = self.values[:, source, :, :end]

    def snapshot(self, slot: int, positions: int) -> Snapshot:
        """Return a copy of the first `positions` of a slot that outlives the slot."""
        end = whole_blocks(positions)
        return Snapshot(self.keys[:, slot, ..., :end].copy(), self.values[:, slot, :, :end].copy())

    def restore(self, slot: int, snapshot: Snapshot, positions: int) -> None:
        """Copy the first `positions` of a snapshot into a slot."""
        end = whole_blocks(positions)
        self.keys[:, slot, ..., :end] = snapshot.keys[..., :end]
        self.values[:, slot, :, :end] = snapshot.values[:, :, :end]


def _doubled(have: int, need: int) -> int:
    while have < need:
        have *= 2
    return have


def _grown(old: Floats, shape: tuple[int, ...]) -> Floats:
    new: Floats = np.zeros(shape, np.float32)
    new[tuple(map(slice, old.shape))] = old
    return new


def return_free_memory() -> None:
    """Return freed memory to the system where the C library can: glibc keeps it, for each thread that has had some."""
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)
