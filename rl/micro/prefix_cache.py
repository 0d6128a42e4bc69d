"""Keys and values of finished sequences, for the next prompt that begins like one of them.

A planner's turn t+1 extends its turn t, and all modules' prompts begin with their instructions, so most of a prompt has
been computed before. Least recently used sequences are dropped when all together exceed a number of tokens.
"""

from dataclasses import dataclass

from agentflow.rl.micro.kv_cache import Ints, Snapshot


@dataclass(frozen=True, eq=False)
class CachedSequence:
    """A sequence's tokens [n] and their keys and values."""

    tokens: Ints
    snapshot: Snapshot


class PrefixCache:
    """A bounded memory of sequences; not thread-safe, it belongs to one engine's worker."""

    def __init__(self, max_tokens: int) -> None:
        self.max_tokens = max_tokens
        self._sequences: list[CachedSequence] = []  # the least recently used first

    @property
    def tokens(self) -> int:
        """Tokens of all sequences."""
        return sum(len(sequence.tokens) for sequence in self._sequences)

    def add(self, sequence: CachedSequence) -> None:
        """Keep `sequence`, in place of those that it extends."""
        added = sequence.tokens.tobytes()
        kept = [old for old in self._sequences if not added.startswith(old.tokens.tobytes())]
        self._sequences = [*kept, sequence]
        excess = self.tokens - self.max_tokens
        while excess > 0:
            excess -= len(self._sequences.pop(0).tokens)

    def longest(self, prompt: Ints) -> tuple[int, CachedSequence | None]:
        """How many first tokens of `prompt` are cached, and in which sequence."""
        best = max(self._sequences, key=lambda sequence: common_prefix(sequence.tokens, prompt), default=None)
        if best is None:
            return 0, None
        self._sequences.remove(best)
        self._sequences.append(best)
        return common_prefix(best.tokens, prompt), best


def common_prefix(a: Ints, b: Ints) -> int:
    """Length of the longest common prefix."""
    n = min(len(a), len(b))
    if n == 0:
        return 0
    same = a[:n] == b[:n]
    first = int(same.argmin())  # of the lowest, which is the first False if there is one
    return n if same[first] else first
