"""Keys and values of many sequences, in blocks of positions.

A sequence lives in a slot. Its positions are cut into blocks of `BLOCK`, so that every matrix product of attention has
the same shape whatever the lengths: the same numbers come out whether a sequence runs alone or beside longer ones.
Keys are stored transposed, for a product without a copy. Unwritten positions are zero, never undefined: masked
attention multiplies them by zero.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

BLOCK = 128
"""Positions of a block."""


def blocks_for(positions: int) -> int:
    """Blocks that hold `positions`."""
    return -(-positions // BLOCK)


@dataclass(frozen=True)
class Snapshot:
    """A copy of the first blocks of one sequence: keys [layer, block, head, dim, BLOCK], values with dim last."""

    keys: Floats
    values: Floats


class KVCache:
    """keys [layer, slot, block, KV head, dim, BLOCK] and values [layer, slot, block, KV head, BLOCK, dim]."""

    def __init__(self, layers: int, heads: int, head_dim: int) -> None:
        self.keys: Floats = np.zeros((layers, 1, 1, heads, head_dim, BLOCK), np.float32)
        self.values: Floats = np.zeros((layers, 1, 1, heads, BLOCK, head_dim), np.float32)

    def reserve(self, slots: int, positions: int) -> None:
        """Make room, by doubling, for slots 0..slots-1 of `positions` each; contents are kept."""
        have_slots, have_blocks = self.keys.shape[1:3]
        blocks = blocks_for(positions)
        if slots <= have_slots and blocks <= have_blocks:
            return
        shape = (_doubled(have_slots, slots), _doubled(have_blocks, blocks))
        self.keys = _grown(self.keys, *shape)
        self.values = _grown(self.values, *shape)

    def write(self, layer: int, slots: Ints | int, positions: Ints, keys: Floats, values: Floats) -> None:
        """Store keys and values [n, KV head, dim] of n tokens at (slot, position)."""
        block, offset = positions // BLOCK, positions % BLOCK
        self.keys[layer][slots, block, :, :, offset] = keys
        self.values[layer][slots, block, :, offset] = values

    def copy(self, source: int, target: int, positions: int) -> None:
        """Copy the first `positions` of one slot to another, up to a full block."""
        blocks = blocks_for(positions)
        self.keys[:, target, :blocks] = self.keys[:, source, :blocks]
        self.values[:, target, :blocks] = self.values[:, source, :blocks]

    def snapshot(self, slot: int, positions: int) -> Snapshot:
        """A copy of the first `positions` of a slot, to outlive it."""
        blocks = blocks_for(positions)
        return Snapshot(self.keys[:, slot, :blocks].copy(), self.values[:, slot, :blocks].copy())

    def restore(self, slot: int, snapshot: Snapshot, positions: int) -> None:
        """Put the first `positions` of a snapshot into a slot."""
        blocks = blocks_for(positions)
        self.keys[:, slot, :blocks] = snapshot.keys[:, :blocks]
        self.values[:, slot, :blocks] = snapshot.values[:, :blocks]


def _doubled(have: int, need: int) -> int:
    while have < need:
        have *= 2
    return have


def _grown(old: Floats, slots: int, blocks: int) -> Floats:
    new: Floats = np.zeros((old.shape[0], slots, blocks, *old.shape[3:]), np.float32)
    new[:, : old.shape[1], : old.shape[2]] = old
    return new
