"""Prefix cache: keys and values of finished sequences, reused by later prompts with a common prefix.

A planner's turn t+1 extends its turn t, and every module's prompts begin with its instructions, so most of a prompt has
been computed before. Least recently used sequences are evicted when the total number of tokens exceeds a limit.
"""

from dataclasses import dataclass

from agentflow.rl.micro.kv_cache import Ints, Snapshot


@dataclass(frozen=True, eq=False)
class CachedSequence:
    """Tokens [n] of a sequence, with their keys and values."""

    tokens: Ints
    snapshot: Snapshot


class PrefixCache:
    """Bounded LRU cache of sequences. Not thread-safe; used only by one engine's worker."""

    def __init__(self, max_tokens: int) -> None:
        self.max_tokens = max_tokens
        self._sequences: list[CachedSequence] = []  # the least recently used first

    @property
    def tokens(self) -> int:
        """Tokens of all sequences."""
        return sum(len(sequence.tokens) for sequence in self._sequences)

    def add(self, sequence: CachedSequence) -> None:
        """Add `sequence`, replacing cached sequences that it extends."""
        added = sequence.tokens.tobytes()
        kept = [old for old in self._sequences if not added.startswith(old.tokens.tobytes())]
        self._sequences = [*kept, sequence]
        excess = self.tokens - self.max_tokens
        while excess > 0:
            excess -= len(self._sequences.pop(0).tokens)

    def longest(self, prompt: Ints) -> tuple[int, CachedSequence | None]:
        """Return the length of the longest cached prefix of `prompt`, and the sequence that holds it."""
        best = max(self._sequences, key=lambda sequence: common_prefix(sequence.tokens, prompt), default=None)
        if best is None:
            return 0, None
        self._sequences.remove(best)
        self._sequences.append(best)
        return common_prefix(best.tokens, prompt), best


def common_prefix(a: Ints, b: Ints) -> int:
    """Return the length of the longest common prefix."""
    n = min(len(a), len(b))
    if n == 0:
        return 0
    same = a[:n] == b[:n]
    first = int(same.argmin())  # index of the first False, if there is one
    return n if same[first] else first
