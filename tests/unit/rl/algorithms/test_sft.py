"""Selection of the calls that supervised fine-tuning imitates."""

import pytest
from hypothesis import given

from agentflow.rl.algorithms.algorithm import Credit, RolloutFacts
from agentflow.rl.algorithms.sft import SFT
from tests.unit.rl.algorithms.rollouts import ROLLOUTS, rollout

LEFT_OUT = Credit(0.0, 0.0)


def test_accepted_rollouts_are_imitated_but_for_their_faults() -> None:
    rollouts = [
        rollout(1.0, lengths=[2, 7, 3], faults=[False, True, False]),
        rollout(0.0, lengths=[9]),
        rollout(0.5, lengths=[9]),
    ]
    chosen = Credit(1.0, 1 / 5)
    assert SFT(penalty=0.3).credit(rollouts) == [[chosen, LEFT_OUT, chosen], [LEFT_OUT], [LEFT_OUT]]


def test_a_lower_threshold_accepts_partial_rewards() -> None:
    rollouts = [rollout(0.5), rollout(0.25), rollout(0.25, turn_rewards=[0.25])]
    assert [calls[0].advantage for calls in SFT(accept=0.5).credit(rollouts)] == [1.0, 0.0, 1.0]


@given(ROLLOUTS)
def test_all_imitated_tokens_weigh_the_same_and_together_1(rollouts: list[RolloutFacts]) -> None:
    credit = SFT(accept=0.25).credit(rollouts)
    imitated = [
        (one.weight, length)
        for calls, of in zip(credit, rollouts, strict=True)
        for one, length in zip(calls, of.lengths, strict=True)
        if one.advantage
    ]
    assert len({weight for weight, _ in imitated}) <= 1
    assert sum(weight * length for weight, length in imitated) == pytest.approx(float(bool(imitated)))
