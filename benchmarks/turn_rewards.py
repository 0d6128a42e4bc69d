"""Atlas apps with turn-level rewards, which `benchmarks.ways` compares.

- judged_turns: a turn that led to an error earns `ERROR`
- informed_turns: a turn earns by how much likelier it makes the right answer to the frozen generator (IGPO,
  arXiv:2510.14967)
- compared_verdicts: planner and verifier learn, and a verdict earns by how much likelier the right answer is at the end
  than if the run had stopped there (counterfactual credit, as in COMA, arXiv:1705.08926)
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from agentflow.evals.atlas import oracle
from agentflow.graph.run.task import Task
from agentflow.graph.state import Turn
from agentflow.nodes import generator
from agentflow.rl.calls import ids_array
from agentflow.rl.chat import ROLES
from agentflow.rl.micro.chat_model import SEED
from agentflow.rl.micro.model import MicroModel
from agentflow.rl.micro.tokenizer import MicroTokenizer
from agentflow.rl.packing import first_difference
from agentflow.rl.planner import atlas
from agentflow.rl.trainable import Trainable

ERROR = -0.1
"""Reward of a turn that led to a format or tool error."""
GAIN = 0.5
"""Reward of a turn, or of a verdict, that turns an impossible right answer into a certain one."""


def judged_turns() -> Trainable:
    """Return the Atlas app with turn-level rewards."""
    app = atlas()

    def turn_rewards(task: Task, state: Any) -> list[float]:
        return [ERROR * fault for fault in app.faults(state)]

    return replace(app, turn_rewards=turn_rewards)


def informed_turns() -> Trainable:
    """Return the Atlas app in which a turn earns the gain in the probability of the right answer."""
    app = atlas()

    def turn_rewards(task: Task, state: Any) -> list[float]:
        likely = probabilities(task, state["memory"])
        found = [GAIN * (after - before) for before, after in pairwise(likely)]
        # A call whose turn is not in memory, since the time ran out, gains nothing.
        return found + [0.0] * (len(app.faults(state)) - len(found))

    return replace(app, turn_rewards=turn_rewards)


def compared_verdicts() -> Trainable:
    """Return the Atlas app in which planner and verifier learn, and a verdict is compared with stopping there.

    So the last verdict earns nothing by itself.
    """
    app = atlas(nodes=["planner", "verifier"])

    def turn_rewards(task: Task, state: Any) -> list[float]:
        likely, credits = probabilities(task, state["memory"]), list[float]()
        for stopped in likely[1:]:
            plan, verdict = 0.0, GAIN * (likely[-1] - stopped)
            credits += [plan, verdict]
        # `algorithm=turn` credits a call with the sum of the rewards from it on, which is its own credit alone then.
        return [own - following for own, following in pairwise([*credits, 0.0])]

    return replace(app, turn_rewards=turn_rewards)


def probabilities(task: Task, memory: Sequence[Turn]) -> list[float]:
    """Return how likely the seed's generator finds the right answer before the first turn and after each.

    Each is the geometric mean over the tokens of the reply.
    """
    model, tokenizer = _seed()
    reply = tokenizer.encode(oracle.generator_reply(task.gold))
    cache, read, found = model.new_cache(), list[int](), []
    for turns in range(len(memory) + 1):
        prompt = [(ROLES[one.type], one.text) for one in generator.messages(task.question, list(memory[:turns]))]
        ids = tokenizer.encode_chat(prompt)
        differs = first_difference(ids_array(read), ids_array(ids))
        known = min(len(read) if differs is None else differs, len(ids) - 1)  # logits need one token
        logits, total, read = model.prefill(cache, 0, ids[known:], known), 0.0, ids
        for place, token in enumerate(reply, start=len(ids)):
            shifted = logits - logits.max()
            total += float(shifted[token]) - math.log(float(np.exp(shifted).sum()))
            logits = model.step(cache, np.array([token]), np.array([place]))[0]
        found.append(math.exp(total / len(reply)))
    return found


@cache
def _seed() -> tuple[MicroModel, MicroTokenizer]:
    return MicroModel.load(SEED), MicroTokenizer.load(SEED)
