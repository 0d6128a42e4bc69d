"""Credit of every call in a step's rows."""

from array import array
from dataclasses import replace
from typing import Any

import pytest

from agentflow.graph.run.task import Task
from agentflow.graph.run.trace import Trace
from agentflow.rl.algorithms import algorithm_of
from agentflow.rl.rollout.batch import (
    CallSpan,
    advantages_of,
    assign_credit,
    counts,
    facts_of,
    mini_batches,
    parts_of,
    signal_of,
)
from agentflow.rl.rollout.calls import Call
from agentflow.rl.rollout.packing import pack
from agentflow.rl.rollout.rollout import Rollout, RolloutStatus, rewarded
from agentflow.tools.coded_error import Cause
from tests.unit.rl.rows import row

TRACE = Trace(task=Task(id="q", question="q", gold="g"), status="answered")


def credit(rows: dict[str, dict[str, Any]]) -> dict[str, list[CallSpan]]:
    return assign_credit(rows, algorithm_of({"name": "flow-grpo"}))


def test_rollouts_that_are_left_out_are_absent_and_change_nothing() -> None:
    rows = {"q_0_0": row([2], 1.0), "q_1_0": row([2]), "q_2_0": row([2], counted=False, status="endpoint_failed")}
    found = credit(rows)
    assert set(found) == {"q_0_0", "q_1_0"}
    assert [calls[0][2] for calls in found.values()] == pytest.approx([0.707, -0.707], abs=1e-3)


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        ("too_long", "policy"),
        ("policy_failed", "policy"),
        ("tool_failed", "tool"),
        ("crashed", "agent"),
        ("timed_out", "limit"),
        *((status, None) for status in ("endpoint_failed", "undecided", "bad_reward")),
    ],
)
def test_a_failure_counts_as_zero_where_its_cause_is_named(status: str, cause: Cause | None) -> None:
    causes: set[Cause] = {"policy", "tool", "agent", "limit"}
    assert rewarded(status, causes) == (cause is not None)
    assert not rewarded(status, causes - {cause})  # type: ignore[arg-type]
    assert rewarded("ok", ())


def test_an_attempt_that_was_given_up_is_a_rollout_of_reward_0() -> None:
    """Both rollouts of the task earn 1, and one needed a second attempt: only that attempt was worse than the mean."""
    calls = [Call("r", "node", turn, *map(array, "iif", ([1], [2], [-0.5])), "stop", 0) for turn in range(2)]
    tried = Rollout("q/0", RolloutStatus.OK, 1.0, calls[1:], [False], TRACE, given_up=calls[:1])
    other = replace(tried, id="q/1", given_up=())
    parts = [(part, name) for one in (tried, other) for part, name in parts_of(one, one.id)]
    assert [(part.reward, [call.turn for call in part.calls], name) for part, name in parts] == [
        (0.0, [0], "q/0 given up"),
        (1.0, [1], "q/0"),
        (1.0, [1], "q/1"),
    ]
    keys = ["q_0_0", "q_0_1", "q_1_0"]
    assert [counts(part, mask_cut_off=False, count_as_zero=()) for part, _ in parts] == [False, True, True]
    rows = {
        key: facts_of(pack(part.calls, limit=9)[0], part, name, counted=True)
        for key, (part, name) in zip(keys, parts, strict=True)
    }
    assert rows["q_0_0"]["nodes"] == ["node"]
    found = credit(rows)
    assert [found[key][0].advantage for key in keys] == pytest.approx([-1.1547, 0.5774, 0.5774], abs=1e-4)
    assert advantages_of(rows, found)["q/0"] == pytest.approx([0.5774], abs=1e-4)


def test_the_order_in_which_rollouts_ended_changes_no_bit() -> None:
    rewards = [0.1, 0.7, 0.2, 0.3, 0.9]
    rows = {f"q_{n}_0": row([3], reward) | {"name": f"q/{n}"} for n, reward in enumerate(rewards)}
    assert credit(dict(reversed(rows.items()))) == credit(rows)


def test_the_signal_is_of_whole_trajectories_that_are_trained_on() -> None:
    """The second trajectory is in two rows; the third differs, and is left out."""
    rows = {
        "q_0_0": row([2], 1.0),
        "q_1_0": row([2], 1.0),
        "q_1_1": row([2], 1.0, first=1),
        "q_2_0": row([2], counted=False),
    }
    assert signal_of(rows) == {"groups_with_signal": 0.0}
    assert signal_of(rows | {"q_0_0": row([2])}) == {"groups_with_signal": 1.0}


@pytest.mark.parametrize(("updates", "expected"), [(None, 3), (1, 1), (5, 5), (11, 8)])
def test_packing_changes_neither_the_number_of_updates_nor_their_trajectories(
    updates: int | None, expected: int
) -> None:
    """qwen2.5-7b made 4 updates a step and qwen3-8b, whose turns are rows, 12: rows were counted."""
    turns = [3, 1, 2, 3, 1, 1, 2, 3]
    packed = {f"q_{n}_0": {**row([1] * number), "name": f"q/{n}"} for n, number in enumerate(turns)}
    unpacked = {f"q_{n}_{turn}": packed[f"q_{n}_0"] for n, number in enumerate(turns) for turn in range(number)}
    found = []
    for rows in (packed, unpacked):
        parts = mini_batches(rows, list(reversed(rows)), updates=updates, size=3)
        assert sorted(key for part in parts for key in part) == sorted(rows)
        found.append([list(dict.fromkeys(rows[key]["name"] for key in part)) for part in parts])
    assert found[0] == found[1]
    assert len(found[0]) == expected
    sizes = [len(names) for names in found[0]]
    assert max(sizes) - min(sizes) <= 1
