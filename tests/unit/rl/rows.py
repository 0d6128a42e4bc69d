"""Rows of a step for tests, as the agent loop describes them to the trainer."""

from typing import Any


def row(
    lengths: list[int],
    reward: float = 0.0,
    *,
    counted: bool = True,
    status: str = "ok",
    faults: list[bool] | None = None,
    first: int = 0,
) -> dict[str, Any]:
    """`first` is the place of its first call in the trajectory."""
    starts = [sum(lengths[:n]) for n in range(len(lengths))]
    return {
        "name": "q/0",
        "counted": counted,
        "status": status,
        "reward": reward,
        "rewarded": status in ("ok", "policy_failed"),
        "forward_tokens": 10 + sum(lengths),
        "unpacked_tokens": 10 * len(lengths) + sum(lengths),
        "spans": list(zip(starts, lengths, strict=True)),
        "places": list(range(first, first + len(lengths))),
        "faults": faults or [False] * len(lengths),
        "nodes": ["planner"] * len(lengths),
        "surprise": [0.5 * length for length in lengths],
        "turns": len(lengths),
        "tool_calls": len(lengths),
        "tool_errors": sum(faults or []),
    }
