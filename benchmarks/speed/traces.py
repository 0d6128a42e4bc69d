"""Generated trajectories as of a planner of a 7B model, the input of the batch measurements.

Each turn's prompt has instructions and tools, the memory so far, and the plan. In append-only prompts, as ours, each
prompt extends the previous one. In re-rendered prompts, as in the paper's code, the memory precedes the last
instructions, so that no prompt extends another.
"""

import random
from dataclasses import dataclass

ROLLOUTS, GROUP = 256, 8
TURNS = (2, 5)
HEAD, TAIL = 1400, 450
"""Tokens of the instructions before and after the memory."""
OUTCOME, REPLY = (200, 700), (150, 450)
"""Ranges of tokens that a turn adds to memory, and of sampled tokens."""
VOCABULARY = (1000, 150_000)


@dataclass(frozen=True)
class SampledCall:
    """One call: ids in, ids out, log-probabilities."""

    prompt: list[int]
    reply: list[int]
    logprobs: list[float]


def trajectories(append_only: bool, rollouts: int = ROLLOUTS) -> list[list[SampledCall]]:
    """Return the trajectories, the same at every call. Calls share no objects, as if each were parsed from JSON."""
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
    """Return the number of tokens of all calls."""
    return sum(len(call.prompt) + len(call.reply) for calls in found for call in calls)
