"""Flow-GRPO: from the rewards of whole trajectories to the weight of every sampled token.

    A_i = (r_i - mean_k r_k) / std_k r_k                       over the trajectories k of one question
    J = 1/G sum_i 1/T_i sum_t 1/|a_i^t| sum_j min(rho A_i, clip(rho, 1 - low, 1 + high) A_i) - beta KL(pi || pi_ref)

Statistics are over trajectories, not over calls: a trajectory of three calls counts as much as one of one call
(AgentFlow, "In-the-Flow Agentic System Optimization", section 3). Where they are over calls, to compare, each call
comes as a trajectory of its own. What is left out of training (`counted` false) has no
part in the statistics either.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

Credit = Literal["trajectory", "turn", "fork"]
Baseline = Literal["mean", "leave-one-out", "batch"]
Scale = Literal["std", "none", "batch"]
Averaging = Literal["trajectory", "trajectory-token", "token"]
Statistics = Literal["trajectory", "call"]

Floats = npt.NDArray[np.float64]

EPSILON = 1e-6
"""Added to the standard deviation, as in verl."""


def advantages(
    rewards: Sequence[float],
    groups: Sequence[str],
    counted: Sequence[bool],
    *,
    baseline: Baseline = "mean",
    scale: Scale = "std",
) -> Floats:
    """The advantage of each trajectory [n].

    Args:
        rewards: Of each trajectory [n].
        groups: The question that each trajectory answers [n].
        counted: Whether it is trained on [n]; the others get 0.
        baseline: What is subtracted: the mean of the group, of its other members, or of all groups together.
        scale: What it is divided by: the standard deviation (n - 1) of the group, nothing, or that of all groups.

    The estimators of the literature are pairs of the two:

        GRPO, Flow-GRPO (arXiv:2402.03300)      mean, std
        Dr. GRPO (arXiv:2503.20783)             mean, none
        RLOO (arXiv:2402.14740)                 leave-one-out, none
        REINFORCE++ (arXiv:2501.03262)          batch, batch; with a group's baseline: mean, batch

    Where nothing can be compared, in a group of one or where all rewards are the same, it is 0.
    """
    values, kept = np.array(rewards, np.float64), np.array(counted, bool)
    names = np.array(groups, object)
    result = np.zeros(len(values))
    for members in _compared(names, kept, together=baseline == "batch"):
        own = values[members]
        if len(members) < 2 or np.ptp(own) == 0:
            continue
        centred = own - own.mean()
        if baseline == "leave-one-out":
            centred *= len(own) / (len(own) - 1)
        result[members] = centred
    for members in _compared(names, kept, together=scale == "batch") if scale != "none" else ():
        if result[members].any():
            spread = values if scale == "std" else result
            result[members] /= spread[members].std(ddof=1) + EPSILON
    return result


def _compared(
    names: npt.NDArray[np.object_], kept: npt.NDArray[np.bool_], *, together: bool
) -> list[npt.NDArray[np.intp]]:
    """Positions of what is compared: the counted trajectories of each question, or all."""
    if together:
        return [np.flatnonzero(kept)]
    return [np.flatnonzero((names == name) & kept) for name in dict.fromkeys(names)]


def token_weights(
    trajectories: Sequence[str], lengths: Sequence[int], *, averaging: Averaging = "trajectory"
) -> Floats:
    """The weight that each sampled token of a call has, for each call [n]. Over all tokens of all calls they sum to 1.

    Args:
        trajectories: The trajectory that each call belongs to [n]; only those that are trained on.
        lengths: Sampled tokens of each call [n], at least 1.
        averaging: "trajectory" is the objective above, 1 / (G T_i |a_i^t|). "trajectory-token" weighs every trajectory
            the same too, and its tokens alike: 1 / (G sum_t |a_i^t|), which does not depend on where one turn ends and
            the next begins. "token" is verl's token-mean, by which a trajectory weighs as much as it has tokens.
    """
    sizes = np.array(lengths, np.float64)
    if averaging == "token":
        return np.full(len(sizes), 1 / sizes.sum())
    turns = Counter(trajectories)
    if averaging == "trajectory-token":
        tokens: Counter[str] = Counter()
        for trajectory, length in zip(trajectories, lengths, strict=True):
            tokens[trajectory] += length
        return np.array([1 / (len(turns) * tokens[trajectory]) for trajectory in trajectories], np.float64)
    shares = np.array([len(turns) * turns[trajectory] for trajectory in trajectories], np.float64)
    weights: Floats = 1 / (shares * sizes)
    return weights
