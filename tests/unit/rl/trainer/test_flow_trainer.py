"""Figures of a step's rollouts, why a step has nothing to train on, and weight syncs that fail."""

import math
import threading
import warnings
from types import SimpleNamespace
from typing import Any

import pytest

from agentflow.rl.algorithms.opd import OPD
from agentflow.rl.batch import Span
from tests.unit.rl.rows import row

pytest.importorskip("verl")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # verl's imports
    import ray
    import torch
    from omegaconf import OmegaConf

    from agentflow.rl.trainer.flow_trainer import FlowTrainer, _only_reward, _rollout_metrics, _why_nothing
    from agentflow.rl.trainer.watch import SyncFailed


def test_metrics_are_over_rollouts_and_a_reward_only_where_there_is_one() -> None:
    rows = {
        "q_0_0": row([2, 2]),
        "q_0_1": row([2, 2]),
        "q_1_0": row([2, 2], faults=[True, False]),
        "q_2_0": row([2], counted=False, status="timed_out"),
    }
    found = _rollout_metrics(rows, {"q_0_0": 1.0, "q_0_1": 1.0, "q_1_0": 0.0, "q_2_0": 0.0})
    assert (found["rollouts"], found["reward"], found["status/ok"], found["status/timed_out"]) == (3, 0.5, 2, 1)
    assert found["tool_error_rate"] == pytest.approx(1 / 5)
    assert (found["rows"], found["prefix_breaks"]) == (4, 1)
    assert (found["forward_tokens"], found["unpacked_tokens"]) == (54, 84)
    nothing = _rollout_metrics({"q_2_0": rows["q_2_0"]}, {"q_2_0": 0.0})
    assert math.isnan(nothing["reward"])


def test_why_a_step_has_nothing_to_train_on_is_counted_over_rollouts() -> None:
    """The line counted rollouts whose nodes never called the policy as "(4 ok)"."""
    rows = {
        "q_0_0": row([], counted=False),
        "q_1_0": row([], counted=False),
        "q_2_0": row([2], counted=False),
        "q_2_1": row([2], counted=False, first=1),
        "q_3_0": row([2], counted=False, status="timed_out"),
    }
    said = _why_nothing(rows)
    assert "2 without a call of a node that learns" in said
    assert "1 cut off" in said
    assert "1 timed_out" in said


def test_a_step_whose_rollouts_all_earn_the_same_teaches_nothing() -> None:
    rows = {"q_0_0": row([2]), "q_1_0": row([2]), "q_2_0": row([2], counted=False, status="timed_out")}
    flat, one = dict.fromkeys(rows, 0.0), {key: [Span(0, 2, 0.0, 1.0)] for key in rows}
    assert _only_reward(rows, flat, one) == 0.0
    assert _only_reward(rows, flat | {"q_0_0": 1.0}, one) is None
    assert _only_reward(rows, flat, one | {"q_0_0": [Span(0, 2, -0.3, 1.0)]}) is None
    assert _only_reward({"q_0_0": rows["q_0_0"]}, {"q_0_0": 1.0}, one) is None


@pytest.fixture
def trainer() -> FlowTrainer:
    """A trainer after step 3, without workers."""
    found = FlowTrainer.__new__(FlowTrainer)
    found.config, found.global_steps = OmegaConf.create({"sync_seconds": 0.05}), 3
    return found


def test_a_weight_sync_that_stalls_fails_after_its_seconds(trainer: FlowTrainer) -> None:
    answered = threading.Event()
    with pytest.raises(SyncFailed, match=r"step 3 .*sync_seconds=0\.05"):
        trainer._sync(lambda: answered.wait() and None)
    answered.set()


def test_a_weight_sync_that_fails_names_its_cause(trainer: FlowTrainer) -> None:
    def send() -> None:
        raise ray.exceptions.RaySystemError("no loader")

    with pytest.raises(SyncFailed, match=r"step 3 .*no loader"):
        trainer._sync(send)


@pytest.mark.parametrize(
    ("step", "every", "validated", "expected"),
    [(0, 2, [], True), (0, 2, [0], False), (4, 2, [0, 2], True), (4, 2, [0, 2, 4], False), (5, 2, [0], False)],
)
def test_a_run_that_resumes_validates_what_is_due_and_nothing_twice(
    trainer: FlowTrainer, step: int, every: int, validated: list[int], expected: bool
) -> None:
    """A resumed run validated its first step again, whether it was due or not, and the step had two lines."""
    trainer.config, trainer.global_steps = OmegaConf.create({"trainer": {"test_freq": every}}), step
    lines = [{"step": 4, "split": "train"}, *({"step": one, "split": "test"} for one in validated)]
    trainer.log = SimpleNamespace(lines=lambda: lines)
    assert trainer._validates_first() == expected


def test_a_teachers_signal_is_added_by_token_and_recorded_by_call(trainer: FlowTrainer) -> None:
    """The second row is padding: a copy without credit of its own."""
    logged: dict[str, Any] = {}
    trainer.log = SimpleNamespace(credit=lambda step, advantages: logged.update(advantages))
    trainer.inspector = SimpleNamespace(credit=lambda credit: logged.update(inspected=credit))
    trainer._rows = {"q_0_0": row([2, 1])}
    trainer._credit = {"q_0_0": [Span(0, 2, 0.5, 0.25), Span(3, 1, 0.5, 0.5)]}
    batch = {
        "old_log_probs": torch.tensor([[-1.0, -2.0, 0.0, -3.0]] * 2),
        "ref_log_prob": torch.tensor([[-0.5, -3.0, -9.0, -1.0]] * 2),
        "response_mask": torch.tensor([[1, 1, 0, 1], [0, 0, 0, 0]]),
    }
    reward = torch.tensor([[0.5, 0.5, 0.0, 0.5], [0.0] * 4])
    found = trainer._distilled(OPD(), ["q_0_0", "pad_0_0"], reward, SimpleNamespace(batch=batch))
    assert found.tolist() == [[1.0, -0.5, 0.0, 2.5], [0.0] * 4]
    assert logged["q/0"] == [0.25, 2.5]
    assert logged["inspected"] == {"q_0_0": [Span(0, 2, 0.25, 0.25), Span(3, 1, 2.5, 0.5)]}


def test_each_policy_has_figures_of_its_own_calls() -> None:
    rows = {
        "q_0_0": row([2, 4]) | {"policies": ["planner", "planner"]},
        "q_0_1": row([3], first=2) | {"policies": ["critic"]},
        "q_1_0": row([6]) | {"policies": ["planner"]},
        "q_2_0": row([2], counted=False, status="timed_out") | {"policies": ["planner"]},
    }
    rewards = {"q_0_0": 1.0, "q_0_1": 1.0, "q_1_0": 0.0, "q_2_0": 0.0}
    found = _rollout_metrics(rows, rewards, separate=True)
    assert (found["policy/planner/calls"], found["policy/planner/sampled_tokens"]) == (4, 14)
    assert (found["policy/planner/reply_tokens"], found["policy/planner/entropy"]) == (3.5, 0.5)
    assert (found["policy/planner/reward"], found["policy/critic/reward"]) == (0.5, 1.0)
    assert found["prefix_breaks"] == 0
    assert _rollout_metrics(rows, rewards)["prefix_breaks"] == 1
    assert not any(name.startswith("policy/") for name in _rollout_metrics({"q_0_0": row([2])}, rewards))
