"""Tokens per second of the embedded model with 64 concurrent requests: `python -m benchmarks.speed.embedded`.

The peer is transformers' `generate` on the same weights; the floor is the time of the matrix products.
"""

import sys

from benchmarks.speed.catalogue import Role, printed
from benchmarks.speed.command import command
from benchmarks.speed.results import SpeedResults

WAYS: tuple[tuple[str, str, Role], ...] = (
    ("ours", "AgentFlow's engine", "ours"),
    ("transformers", "transformers generate", "peer"),
    ("products", "matrix products alone", "floor"),
)


def measure(results: SpeedResults) -> None:
    """Return sampled tokens per second."""
    options = ["--reply", "4"] if results.small else []
    for repeat in range(results.repeats):
        for way, label, role in WAYS:
            what = {"measure": "embedded", "name": way, "label": label, "role": role, "repeat": repeat}
            results.once(
                lambda way=way: printed(sys.executable, ["-m", "benchmarks.speed.generation", way, *options]),  # type: ignore[misc]
                **what,
            )


if __name__ == "__main__":
    command(measure, __doc__)
