"""Rollouts as a tree: what each turn is credited with."""

import asyncio
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.rl.forks import Place, Tree, fork_credit, fork_turn
from agentflow.rl.tape import Tape

TRUNK, FORK = Place("q", "q/0", 0), Place("q", "q/0", 1)
OTHER = Place("q", "q/2", 0)


def test_by_hand() -> None:
    """A trunk of three turns that failed, a fork from its second turn on that did not; another trunk, not forked."""
    trunk, fork, other = fork_credit([TRUNK, FORK, OTHER], [3, 2, 1], [0.0, 1.0, 1.0], scale="none")
    quarter = 1 / 4
    assert trunk == [
        (-0.5, pytest.approx(quarter / 3 + quarter / 2)),  # both go through it; their mean is 0.5, the other trunk's 1
        (-1.0, pytest.approx(quarter / 3)),
        (-1.0, pytest.approx(quarter / 3)),
    ]
    assert fork == [(1.0, pytest.approx(quarter / 2))]
    assert other == [(0.5, pytest.approx(0.5))]


@st.composite
def trees(draw: st.DrawFn) -> tuple[list[Place], list[int], list[float]]:
    places, turns, rewards = [], [], []
    for question, trunk in product(range(draw(st.integers(1, 3))), range(draw(st.integers(1, 3)))):
        name, length = f"{question}/{trunk}", draw(st.integers(1, 4))
        forked = draw(st.integers(1, length - 1)) if length > 1 else 0
        for fork in range(draw(st.integers(0, 3)) + 1):
            told = bool(fork and forked)
            places.append(Place(str(question), name if told or not fork else f"{name}+{fork}", forked if told else 0))
            turns.append(forked + draw(st.integers(1, 3)) if told else length)
            rewards.append(draw(st.sampled_from([0.0, 0.5, 1.0])))
    return places, turns, rewards


@given(trees())
def test_each_turn_is_credited_once_and_all_weights_sum_to_one(
    tree: tuple[list[Place], list[int], list[float]],
) -> None:
    places, turns, rewards = tree
    credit = fork_credit(places, turns, rewards, scale="none")
    assert [len(one) for one in credit] == [length - place.given for place, length in zip(places, turns, strict=True)]
    assert sum(weight for one in credit for _, weight in one) == pytest.approx(1)


@given(trees())
def test_where_all_rewards_are_the_same_nothing_is_learnt(tree: tuple[list[Place], list[int], list[float]]) -> None:
    places, turns, _ = tree
    for one in fork_credit(places, turns, [1.0] * len(places), scale="std"):
        assert all(advantage == 0 for advantage, _ in one)


def test_without_forks_it_is_leave_one_out_over_trajectories() -> None:
    rewards, turns = [1.0, 0.0, 0.0, 1.0], [2, 1, 3, 2]
    credit = fork_credit([Place("q", str(n), 0) for n in range(4)], turns, rewards, scale="none")
    for reward, length, one in zip(rewards, turns, credit, strict=True):
        expected = reward - (sum(rewards) - reward) / 3
        assert one == [(pytest.approx(expected), pytest.approx(1 / (4 * length)))] * length


def test_the_gradient_keeps_its_expectation() -> None:
    """A policy of two binary turns; all of what two trunks with a fork each can do, summed up by its probability.

    The reward is of both turns together. The gradient of the expected reward by the logit of "1" at each turn is known
    in closed form; a turn's score is bit - p.
    """
    p = np.array([0.3, 0.6])
    reward = np.array([[0.1, 0.9], [0.5, 0.2]])  # by the first and the second bit
    places = [Place("q", "0", 0), Place("q", "0", 1), Place("q", "2", 0), Place("q", "2", 1)]
    found = np.zeros(2)
    for a, b, c, d, e, f in product((0, 1), repeat=6):
        # The first trunk does a, b and its fork a, c; the second d, e and d, f.
        chance = _chance(p[0], a, d) * _chance(p[1], b, c, e, f)
        rewards = [reward[a, b], reward[a, c], reward[d, e], reward[d, f]]
        credit = fork_credit(places, [2, 2, 2, 2], rewards, scale="none")
        own = [[a, b], [c], [d, e], [f]]
        for bits, turns in zip(own, credit, strict=True):
            first = 2 - len(bits)
            for turn, (bit, (advantage, weight)) in enumerate(zip(bits, turns, strict=True), start=first):
                found[turn] += chance * weight * advantage * (bit - p[turn])
    slope = p * (1 - p)
    by_first = (reward[1] - reward[0]) @ [1 - p[1], p[1]]
    by_second = (reward[:, 1] - reward[:, 0]) @ [1 - p[0], p[0]]
    # Each trajectory weighs as a whole and each of its two turns half of that.
    np.testing.assert_allclose(found, slope * [by_first, by_second] / 2, rtol=1e-9)


def _chance(p: float, *bits: int) -> float:
    return float(np.prod([p if bit else 1 - p for bit in bits]))


async def test_a_fork_waits_for_its_trunk_and_is_told_what_it_was_told() -> None:
    tree, tapes = Tree(forks=1, name="q"), [Tape(f"q/{number}", keep=lambda told: None) for number in range(4)]
    await tree.begins(0, tapes[0])
    waiting = asyncio.create_task(tree.begins(1, tapes[1]))
    await asyncio.sleep(0)
    assert not waiting.done()
    for turn in range(3):
        tapes[0].add("policy", f"plan {turn}", {"text": str(turn)})
        tapes[0].add("tool", f"call {turn}", {"output": str(turn)})
    await tree.ended(0, tapes[0], 3)
    await waiting
    at = fork_turn(3, "q 0")
    assert tapes[1].forked == ("q/0", at)
    tapes[1].rewind()
    for turn in range(3):
        known = tapes[1].known("policy", f"plan {turn}"), tapes[1].known("tool", f"call {turn}")
        assert known == (({"text": str(turn)}, {"output": str(turn)}) if turn < at else (None, None))
    await tree.begins(2, tapes[2])
    assert tapes[2].forked == ("q/2", 0)


async def test_a_trunk_that_broke_off_has_no_forks() -> None:
    tree, tape = Tree(forks=1, name="q"), Tape("q/1", keep=lambda told: None)
    await tree.ended(0, Tape("q/0", keep=lambda told: None), 0)
    await tree.begins(1, tape)
    assert tape.forked == ("q/1", 0)


@given(st.integers(0, 9), st.text(max_size=5))
def test_a_fork_is_between_two_turns(turns: int, name: str) -> None:
    at = fork_turn(turns, name)
    assert at == 0 if turns < 2 else 1 <= at < turns


async def test_a_trunk_whose_attempts_were_given_up_has_no_forks() -> None:
    """Its policy answered three times, and two turns count: no answer tells which turn it is of."""
    tree = Tree(forks=1, name="q")
    trunk, fork = (Tape(f"q/{number}", keep=lambda told: None) for number in range(2))
    for turn in range(3):
        trunk.add("policy", f"plan {turn}", {"text": str(turn)})
    await tree.ended(0, trunk, 2)
    await tree.begins(1, fork)
    assert fork.forked == ("q/1", 0)
