"""Credit by node: each node is compared with the trajectories in which it spoke."""

from hypothesis import given

from agentflow.rl.algorithms import algorithm_of
from agentflow.rl.algorithms.algorithm import RolloutFacts
from tests.unit.rl.algorithms.rollouts import ROLLOUTS, rollout

FLOW, NODE = (algorithm_of({"name": name}) for name in ("flow-grpo", "per-node"))


@given(ROLLOUTS)
def test_one_node_is_flow_grpo(rollouts: list[RolloutFacts]) -> None:
    assert NODE.credit(rollouts) == FLOW.credit(rollouts)


def test_a_node_that_spoke_in_some_trajectories_is_compared_with_those() -> None:
    """The critic helped in both trajectories that asked it alike; whether to ask it was the planner's choice."""
    asked = [rollout(1.0, lengths=[1, 1], nodes=["planner", "critic"]) for _ in range(2)]
    alone = [rollout(0.0, nodes=["planner"]) for _ in range(2)]
    credit = NODE.credit([*asked, *alone])
    assert [one.advantage for one in credit[0]] == [credit[1][0].advantage, 0.0]
    assert credit[0][0].advantage > 0 > credit[2][0].advantage
