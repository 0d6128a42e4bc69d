"""Tokens a second of the embedded model, 64 requests at once: `python -m benchmarks.speed.embedded`.

Beside it `generate` of transformers on the same weights, and the time of the matrix products alone.
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
    """Sampled tokens a second."""
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
