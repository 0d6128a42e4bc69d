"""Metrics of a step's rollouts, and why a step has nothing to train on.

`rows` are the facts of a step's rows by key, as `agentflow.rl.trainer.agent_loop` sends them.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from agentflow.rl.rollout.batch import CallSpan, session_of
from agentflow.rl.rollout.rollout import RolloutStatus


def _node_metrics(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Return the metrics of each node, where several learn.

    Entropy is estimated by the mean of -log p over the sampled tokens; the reward is that of the rollouts with a
    reward in which the node spoke.
    """
    lengths: dict[str, list[int]] = defaultdict(list)
    surprise: dict[str, float] = defaultdict(float)
    earned: dict[str, dict[str, float]] = defaultdict(dict)
    for key, row in rows.items():
        for node, (_, length), nats in zip(row["nodes"], row["spans"], row["surprise"], strict=True):
            lengths[node].append(length)
            surprise[node] += nats
            if row["rewarded"]:
                earned[node][session_of(key)] = row["reward"]
    found: dict[str, float] = {}
    for node in sorted(lengths) if len(lengths) > 1 else ():
        tokens, own = sum(lengths[node]), earned[node].values()
        measured = {
            "calls": len(lengths[node]),
            "sampled_tokens": tokens,
            "reply_tokens": tokens / len(lengths[node]),
            "entropy": surprise[node] / tokens,
            **({"reward": sum(own) / len(own)} if own else {}),
        }
        found |= {f"node/{node}/{name}": value for name, value in measured.items()}
    return found


def _reply_metrics(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Return figures of what the policy sampled: tokens, mean length, share of calls that led to an error, entropy.

    The entropy is estimated as for a node; the replies of a teacher have none, since the policy gave them no
    probability.
    """
    lengths = [length for row in rows.values() for _, length in row["spans"]]
    tokens, nats = sum(lengths), sum(sum(row["surprise"]) for row in rows.values())
    found: dict[str, float] = {"sampled_tokens": tokens}
    if tokens:
        found["reply_tokens"] = tokens / len(lengths)
        found["fault_rate"] = sum(sum(row["faults"]) for row in rows.values()) / len(lengths)
    if tokens and math.isfinite(nats):
        found["entropy"] = nats / tokens
    return found


def rollout_metrics(rows: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Return the metrics of a step's rollouts.

    `reward` is the mean over the rollouts with a reward, failures that count as 0 included, and `reward_finished` that
    over those with status OK; `left_out` is the share without one.
    """
    rollouts = list({session_of(key): row for key, row in rows.items()}.values())
    statuses = Counter(row["status"] for row in rollouts)
    known = [row["reward"] for row in rollouts if row["rewarded"]]
    finished = [row["reward"] for row in rollouts if row["status"] == RolloutStatus.OK]
    calls = sum(row["tool_calls"] for row in rollouts)
    return {
        "rollouts": len(rollouts),
        "reward": sum(known) / len(known) if known else math.nan,
        **({"reward_finished": sum(finished) / len(finished)} if finished else {}),
        "left_out": 1 - len(known) / len(rollouts),
        "turns": sum(row["turns"] for row in rollouts) / len(rollouts),
        "tool_error_rate": sum(row["tool_errors"] for row in rollouts) / calls if calls else 0.0,
        "rows": len(rows),
        "prefix_breaks": len(rows) - len(rollouts),
        "forward_tokens": sum(row["forward_tokens"] for row in rows.values()),
        "unpacked_tokens": sum(row["unpacked_tokens"] for row in rows.values()),
        **_reply_metrics(rows),
        **{f"status/{status}": statuses[status] for status in RolloutStatus},
        **_node_metrics(rows),
    }


def staleness(rows: Mapping[str, Mapping[str, Any]], step: int) -> dict[str, float]:
    """Return the staleness of the rows of a step: updates between the weights that sampled and those that are trained.

    `staleness` is the mean over the rows, `max_staleness` the maximum; a row counts by its oldest token. Those of a
    teacher have none, since the policy gave their tokens no probability.
    """
    sampled = [row for row in rows.values() if row["spans"] and math.isfinite(sum(row["surprise"]))]
    ages = [step - 1 - row["min_global_steps"] for row in sampled]
    return {"staleness": sum(ages) / len(ages), "max_staleness": max(ages)} if ages else {}


def only_reward(rows: dict[str, dict[str, Any]], credit: dict[str, list[CallSpan]]) -> float | None:
    """Return the reward that all rollouts share; None if there are several, or a call has an advantage."""
    if any(advantage for spans in credit.values() for _, _, advantage, _ in spans):
        return None
    sessions = {session_of(key): row["reward"] for key, row in rows.items() if row["rewarded"]}
    found = set(sessions.values())
    return found.pop() if len(sessions) > 1 and len(found) == 1 else None


def why_nothing(rows: dict[str, dict[str, Any]]) -> str:
    """Return, in one line, why no rollout of a step can be trained on."""
    reasons = Counter(_why_left_out(row) for row in {session_of(key): row for key, row in rows.items()}.values())
    counted = ", ".join(f"{number} {reason}" for reason, number in reasons.most_common())
    return f"no rollout of this step can be trained on: {counted}; see rollouts/ for each one's error"


def _why_left_out(row: dict[str, Any]) -> str:
    if not row["rewarded"]:
        return str(row["status"])
    return "cut off at response_tokens (flow.mask_cut_off)" if row["spans"] else "without a call of a node that learns"
