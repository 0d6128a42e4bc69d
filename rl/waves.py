"""A question's rollouts in waves: once its group has something to tell, the rest of it is not sampled.

    flow.waves=[2,4] rollouts=8     two rollouts; while all rewards are the same, two more, then the last four

Every group that would have differed among all its rollouts differs at some wave, so that no signal is lost. For rewards
of 0 and 1 no direction is either: of m rollouts k succeeded, and their gradient is k (m - k) / m times the difference
of the mean scores of success and failure, whatever rule chose m. What changes is how much a question weighs.
"""

import asyncio
from collections.abc import Sequence


class Group:
    """The rollouts of one question, numbered from 0; each asks before it begins and says how it ended."""

    def __init__(self, waves: Sequence[int], rollouts: int) -> None:
        """`waves` are numbers of rollouts by the end of each wave, rising; the last wave ends with `rollouts`."""
        self._bounds = [*(bound for bound in waves if bound < rollouts), rollouts]
        self._rewards: dict[int, float | None] = {}
        self._changed = asyncio.Condition()

    async def begins(self, number: int) -> bool:
        """Waits for the wave of a rollout; False if the group was decided before it."""
        before = max((bound for bound in self._bounds if bound <= number), default=0)
        async with self._changed:
            await self._changed.wait_for(lambda: all(one in self._rewards for one in range(before)))
        return not self._decided(before)

    async def ended(self, number: int, reward: float | None) -> None:
        """A rollout is over; None where it has no reward."""
        async with self._changed:
            self._rewards[number] = reward
            self._changed.notify_all()

    def _decided(self, before: int) -> bool:
        """Whether the first so many differ. A wave that was not sampled tells nothing new."""
        told = {self._rewards[number] for number in range(before)} - {None}
        return len(told) > 1


def sampled(rewards: Sequence[float], waves: Sequence[int]) -> int:
    """How many of a group's rollouts, of which all `rewards` are known, would have been sampled in waves."""
    for bound in waves:
        if bound < len(rewards) and len(set(rewards[:bound])) > 1:
            return bound
    return len(rewards)
