"""Trajectories as a planner of a 7B model leaves them, made by rule: what trainers are to turn into a batch.

Each turn's prompt is instructions and tools, the memory so far, and what was planned. Append-only, as ours is, a prompt
extends all that went before; re-rendered, as in the paper's code, the memory stands before the last instructions, so
that no prompt extends another.
"""

import random
from dataclasses import dataclass

ROLLOUTS, GROUP = 256, 8
TURNS = (2, 5)
HEAD, TAIL = 1400, 450
"""Tokens of the instructions before the memory, and after it."""
OUTCOME, REPLY = (200, 700), (150, 450)
"""Tokens that a turn adds to memory, and that are sampled."""
VOCABULARY = (1000, 150_000)


@dataclass(frozen=True)
class SampledCall:
    """One call: ids in, ids out, log-probabilities."""

    prompt: list[int]
    reply: list[int]
    logprobs: list[float]


def trajectories(append_only: bool, rollouts: int = ROLLOUTS) -> list[list[SampledCall]]:
    """The same ones at every call. No two calls share an object: each came out of a JSON text of its own."""
    chance = random.Random(0)

    def ids(number: int) -> list[int]:
        return [chance.randrange(*VOCABULARY) for _ in range(number)]

    found = []
    for _ in range(rollouts):
        head, tail, memory, calls = ids(HEAD), ids(TAIL), list[int](), list[SampledCall]()
        for _ in range(chance.randint(*TURNS)):
            prompt = [*head, *tail, *memory] if append_only else [*head, *memory, *tail]
            reply, outcome = ids(chance.randint(*REPLY)), ids(chance.randint(*OUTCOME))
            calls.append(SampledCall([int(str(i)) for i in prompt], reply, [-chance.random() for _ in reply]))
            memory += [*reply, *outcome] if append_only else outcome
        found.append(calls)
    return found


def tokens(found: list[list[SampledCall]]) -> int:
    """Of all calls."""
    return sum(len(call.prompt) + len(call.reply) for calls in found for call in calls)
