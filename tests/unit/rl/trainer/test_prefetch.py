"""Rollouts that begin before their step."""

from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf
from verl.trainer.ppo.v1 import PPOTrainerSync

from agentflow.rl.trainer.prefetch import PrefetchingTrainer

STEPS = 9


class Loader:
    """Data loader whose batch number n is the n-th that it gives."""

    def __init__(self, position: int) -> None:
        self.position = position

    def state_dict(self) -> int:
        return self.position


def trainer(saved: tuple[int, int], max_staleness: int, taken: list[tuple[int, int]]) -> PrefetchingTrainer:
    """A trainer of a run that resumes from a checkpoint: its step, and the position of its data loader.

    `taken` gets the step and the number of the batch of all rollouts that begin.
    """
    step, position = saved
    found = PrefetchingTrainer.__new__(PrefetchingTrainer)
    found.config, found._positions = OmegaConf.create({"max_staleness": max_staleness}), {}
    found.total_training_steps, found.global_steps = STEPS, step + 1
    found.train_dataloader = Loader(position)

    def begin() -> None:
        found.train_dataloader.position += 1
        taken.append((found.global_steps, found.train_dataloader.position))

    found._add_batch_to_generate = begin
    found.on_train_begin()
    return found


@pytest.mark.parametrize(("most", "expected"), [(0, [1, 2, 3]), (1, [2, 3, 4]), (20, [9, 9, 9])])
def test_rollouts_begin_as_early_as_their_staleness_allows(most: int, expected: list[int]) -> None:
    taken: list[tuple[int, int]] = []
    found = trainer((0, 0), most, taken)
    for last in expected:
        found.prepare_step()
        assert [step for step, _ in taken] == list(range(1, last + 1))
        found.global_steps += 1


@given(st.integers(0, 3), st.lists(st.tuples(st.integers(1, 4), st.booleans()), max_size=6))
def test_a_run_that_is_killed_and_resumes_trains_each_step_on_the_batch_that_was_its_own(
    most: int, runs: list[tuple[int, bool]]
) -> None:
    """Each run makes some steps, and is killed with or without a checkpoint of the last."""
    saved = (0, 0)
    for number, keeps in runs:
        taken: list[tuple[int, int]] = []
        found = trainer(saved, most, taken)
        for _ in range(min(number, STEPS - saved[0])):
            found.prepare_step()
            found.global_steps += 1
        assert all(step == batch for step, batch in taken)
        found.global_steps -= 1
        if keeps and found.global_steps > saved[0]:
            saved = found.global_steps, saved_position(found)


def saved_position(found: PrefetchingTrainer) -> int:
    """The position that verl saves in a checkpoint."""
    positions: deque[int] = deque()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            PPOTrainerSync, "_save_checkpoint", lambda self: positions.append(self.train_dataloader.state_dict())
        )
        loader = found.train_dataloader
        found._save_checkpoint()
        assert found.train_dataloader is loader
    return positions.pop()


@given(st.dictionaries(st.text("abcdef", min_size=1), st.integers(1, 3)), st.integers(1, 3))
def test_a_step_is_trained_on_its_own_rollouts_however_soon_those_of_later_steps_end(
    ended: dict[str, int], step: int
) -> None:
    buffer = SimpleNamespace(
        prompt_global_steps={"train": ended}, _sampleable_terminal_keys=lambda partition, evicted: set(ended)
    )
    found = PrefetchingTrainer.__new__(PrefetchingTrainer)
    found.global_steps = step
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PPOTrainerSync, "_build_replay_buffer", lambda self: buffer)
        due: Any = found._build_replay_buffer()._sampleable_terminal_keys("train", None)
    assert due == {task for task, its in ended.items() if its <= step}
