"""Conversion of traces to the trainer's batch: speed, padding, tokens computed per trained token.

    python -m benchmarks.speed.batch

256 rollouts of two to five turns, from `traces`. Ours have append-only prompts. A peer is measured on those and on the
re-rendered prompts of the paper's code, with which its agents would run. Speed is in tokens of the traces.
"""

import sys
from collections.abc import Callable

from benchmarks.speed.catalogue import NotMeasured, Role, printed, site_packages
from benchmarks.speed.command import command
from benchmarks.speed.results import SpeedResults

LIGHTNING = "Agent Lightning's RolloutAdapter"

WAYS: tuple[tuple[str, str, Role, bool], ...] = (
    ("ours", "AgentFlow, verl's tensors", "ours", True),
    ("agentlightning", f"{LIGHTNING}, append-only", "peer", True),
    ("floor", "numpy, append-only", "floor", True),
    ("rows", "AgentFlow, packed rows", "ours", True),
    ("agentlightning", f"{LIGHTNING}, re-rendered", "peer", False),
    ("transitions", f"{LIGHTNING}, a row per call", "peer", False),
    ("floor", "numpy, re-rendered", "floor", False),
)


def measure(results: SpeedResults) -> None:
    """Return tokens per second of CPU time, the share of padding, and forward tokens per trained token."""
    rollouts = 32 if results.small else 256
    for repeat in range(results.repeats):
        for way, label, role, append_only in WAYS:
            name = f"{way}{'' if append_only else '-rerendered'}"
            what = {"measure": "batch", "name": name, "label": label, "role": role, "repeat": repeat}
            results.once(_made(way, append_only, rollouts), **what)
        what = {"measure": "batch", "name": "rllm", "label": "rLLM", "role": "peer", "repeat": repeat}
        results.once(_rllm, **what)


def _made(way: str, append_only: bool, rollouts: int) -> Callable[[], dict[str, object]]:
    options = [way, "--rollouts", str(rollouts), *(["--append-only"] if append_only else [])]

    def make() -> dict[str, object]:
        # Agent Lightning's adapter needs verl, which is in our venv, and not in its own.
        packages = [] if way in ("ours", "rows", "floor") else ["--packages", str(site_packages("agentlightning"))]
        return printed(sys.executable, ["-m", "benchmarks.speed.batches", *options, *packages])

    return make


def _rllm() -> dict[str, object]:
    raise NotMeasured("its trainer is not on PyPI (rllm-model-gateway alone is)")


if __name__ == "__main__":
    command(measure, __doc__)
