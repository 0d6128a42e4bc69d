"""What rollouts in waves save: `python -m benchmarks.waves RUN...`.

A RUN is an evaluation with several tries of each question (`agentflow eval atlas --epochs 8 --temperature 1`), or a
training. The rewards of each whole group are known there, so that every schedule can be tried on the same groups: how
many rollouts it would have sampled, and how many groups would have had a signal. What counts is rollouts per group with
a signal, against whole groups of the largest size.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from agentflow.rl.waves import sampled

SCHEDULES: tuple[tuple[int, ...], ...] = ((8,), (2, 8), (2, 4, 8), (2, 4, 6, 8), (2, 3, 4, 5, 6, 7, 8), (2, 4), (4,))
"""Numbers of rollouts by the end of each wave; the last is the whole group."""


def rewards(run: Path) -> Iterator[list[float]]:
    """Of each question at each step, the rewards of its rollouts in the order in which they were sampled."""
    groups: dict[tuple[int, str], list[tuple[int, float]]] = defaultdict(list)
    episodes = run / "episodes.jsonl"
    for path in [episodes] if episodes.exists() else sorted(run.glob("rollouts/*-train.jsonl")):
        for number, line in enumerate(path.read_text().splitlines()):
            record = json.loads(line)
            if "decision" in record:
                groups[0, record["id"]].append((record["sample"], float(record["decision"] == "correct")))
            elif record["fate"] == "ok":
                groups[record["step"], record["task"]].append((number, record["reward"]))
    for group in groups.values():
        yield [reward for _, reward in sorted(group)]


def tried(groups: Sequence[Sequence[float]], schedule: Sequence[int]) -> tuple[int, int]:
    """Rollouts that the schedule would have sampled, and groups with a signal."""
    *waves, size = schedule
    spent = signals = 0
    for group in groups:
        whole = group[:size]
        number = sampled(whole, waves)
        spent += number
        signals += len(set(whole[:number])) > 1
    return spent, signals


def main(runs: Sequence[str]) -> int:
    """Prints the table."""
    size = max(schedule[-1] for schedule in SCHEDULES)
    groups = [group for run in runs for group in rewards(Path(run)) if len(group) >= size]
    if not groups:
        print(f"error: no group of {size} rollouts in {' '.join(runs) or 'no run'}; name a RUN", file=sys.stderr)
        return 2
    print(f"{len(groups)} groups of {size}")
    print(f"{'waves':<16}{'rollouts':>10}{'with a signal':>15}{'rollouts each':>15}{'saved':>8}")
    spent, signals = tried(groups, (size,))
    whole = spent / max(signals, 1)
    for schedule in SCHEDULES:
        spent, signals = tried(groups, schedule)
        each = spent / max(signals, 1)
        print(f"{','.join(map(str, schedule)):<16}{spent:>10}{signals:>15}{each:>15.1f}{1 - each / whole:>8.0%}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
