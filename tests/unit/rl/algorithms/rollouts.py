"""Rollouts for tests of algorithms."""

from collections.abc import Sequence

from hypothesis import strategies as st

from agentflow.rl.algorithms.algorithm import RolloutFacts


def rollout(
    reward: float,
    *,
    group: str = "q",
    lengths: Sequence[int] = (1,),
    faults: Sequence[bool] = (),
) -> RolloutFacts:
    return RolloutFacts(group, reward, lengths, faults or [False] * len(lengths))


ROLLOUTS = st.lists(
    st.builds(
        rollout,
        st.sampled_from([0.0, 0.25, 1.0]),
        group=st.sampled_from("abc"),
        lengths=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    ),
    min_size=1,
    max_size=12,
)
