"""A question's rollouts as a tree: some begin at the question, the others in the middle of one of those.

    flow.forks=3 rollouts=8     two rollouts from the question on; from one turn of each, three others that go on alone

What a trunk was told before the turn is told to its forks too (`agentflow.rl.tape`), so that all of them stand in
exactly the same state of the graph, and what they earn from there tells what that turn and the next were worth:

    A_k^s = R_k - mean of the other rollouts' R that were in the same state       turns s from the fork on
    A_i^s = V_i - mean of the other trunks' V                                     turns s of trunk i before the fork

V_i is the mean reward of trunk i and its forks, R divided by the standard deviation of the question's rewards where
that is asked for. Each baseline is independent of what it is subtracted from, so the gradient keeps its expectation
(compare VinePO, arXiv:2410.01679, and GiGPO, arXiv:2505.10978, which look for states that happen to be the same). The
turns before a fork are sampled and trained once, and count for all rollouts that go through them.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agentflow.rl.flow_grpo import EPSILON, Scale
from agentflow.rl.tape import Tape


@dataclass(frozen=True)
class Place:
    """Where a rollout begins."""

    question: str
    trunk: str
    """The rollout that it forks from; of one that was told nothing, itself."""
    given: int
    """How many turns it was told."""


class Tree:
    """The rollouts of one question while they run, numbered from 0: each fork waits for its trunk."""

    def __init__(self, forks: int, name: str) -> None:
        """`forks` of each trunk; `name` tells the question's trees of different steps apart."""
        self._size, self._name = 1 + forks, name
        self._trunks: dict[int, tuple[Tape, int]] = {}
        self._changed = asyncio.Condition()

    async def begins(self, number: int, tape: Tape) -> None:
        """Waits for a rollout's trunk, and puts on its tape what it is told of it."""
        trunk = number - number % self._size
        if trunk == number:
            return
        async with self._changed:
            await self._changed.wait_for(lambda: trunk in self._trunks)
        told, turns = self._trunks[trunk]
        if at := fork_turn(turns, f"{self._name} {trunk}"):
            tape.fork(told, at)

    async def ended(self, number: int, tape: Tape, turns: int) -> None:
        """A rollout is over, after so many turns; 0 if it broke off.

        Where its policy answered more than its turns, as for attempts that were given up, no turn of it can be told by
        the number of answers before, and it is not forked.
        """
        async with self._changed:
            self._trunks[number] = tape, turns if tape.turns == turns else 0
            self._changed.notify_all()


def fork_turn(turns: int, name: str) -> int:
    """The turn at which a trunk of so many turns is forked, the same for all its forks; 0 if it has no second one."""
    return random.Random(f"fork {name}").randint(1, turns - 1) if turns > 1 else 0


def fork_credit(
    places: Sequence[Place], turns: Sequence[int], rewards: Sequence[float], *, scale: Scale
) -> list[list[tuple[float, float]]]:
    """Of each rollout [n], the advantage and weight of each of its own turns [turns - given]. All weights sum to 1.

    Args:
        places: Where each rollout begins [n].
        turns: Of each, how many turns it has, told ones included [n].
        rewards: Of each [n].
        scale: "std": in standard deviations (n - 1) of the question's rewards; "none": as they are.

    A rollout has the share of its trunk's weight, which is the same for all trunks, and each of its turns 1 / T of
    that; a turn that several rollouts go through has the shares of all of them. What has nothing to be compared with
    has advantage 0.
    """
    questions: dict[str, list[int]] = defaultdict(list)
    for number, place in enumerate(places):
        questions[place.question].append(number)
    found: list[list[tuple[float, float]]] = [[] for _ in places]
    trunks = sum(len(_together(places, members)) for members in questions.values())
    for members in questions.values():
        spread = np.std([rewards[number] for number in members], ddof=1) if len(members) > 1 else 0.0
        unit = float(spread) + EPSILON if scale == "std" else 1.0
        together = _together(places, members)
        values = [float(np.mean([rewards[number] for number in group])) for group in together]
        for group, value, before in zip(together, values, _against(values), strict=True):
            weights = {number: 1 / (trunks * len(group) * turns[number]) for number in group}
            after = _against([rewards[number] for number in group])
            # A rollout that nobody forked is compared as a whole.
            given = max(places[number].given for number in group) if len(group) > 1 else turns[group[0]]
            for number, baseline in zip(group, after, strict=True):
                own = (rewards[number] - baseline) / unit, weights[number]
                shared = (value - before) / unit, sum(weights.values())
                first = places[number].given
                found[number] = [shared if turn < given else own for turn in range(first, turns[number])]
    return found


def _against(values: Sequence[float]) -> list[float]:
    """Of each value the mean of the others; what is alone is compared with itself."""
    if len(values) < 2:
        return list(values)
    return [(sum(values) - value) / (len(values) - 1) for value in values]


def _together(places: Sequence[Place], members: Sequence[int]) -> list[list[int]]:
    """A question's rollouts by their trunk."""
    groups: dict[str, list[int]] = defaultdict(list)
    for number in members:
        groups[places[number].trunk].append(number)
    return list(groups.values())
