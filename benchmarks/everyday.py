"""Atlas app that asks everyday sums in words instead, for `benchmarks.ways`.

    python -m benchmarks.ways --out runs/everyday --setting app=benchmarks.everyday:everyday --only flow-grpo --only sft

Questions are from the generator of the seed's training data; the test split's cannot occur in that data.
"""

import random
from dataclasses import replace

from agentflow.evals.atlas.world import split_of
from agentflow.graph.run.task import Task
from agentflow.rl.planner import atlas
from agentflow.rl.trainable import Split, Trainable
from recipes.micro.everyday import FAMILY, calculation, conversion


def everyday() -> Trainable:
    """Return the app."""
    return replace(atlas(), name=FAMILY, tasks=tasks)


def tasks(split: Split, number: int) -> list[Task]:
    """Return the first `number` questions of a split, all of them different."""
    rng, found = random.Random(f"everyday {split}"), dict[str, str]()
    while len(found) < number:
        problem = rng.choice((calculation, conversion))(rng)
        if (split_of(problem.question) == "train") == (split == "train"):
            found.setdefault(problem.question, problem.answer)
    return [
        Task(id=f"{split}-{place}", question=asked, gold=gold, family=FAMILY, data={"numbers": [], "target": 0})
        for place, (asked, gold) in enumerate(found.items())
    ]
