"""Selective answers of the embedded planner: it declines a calculation that it is not sure of.

The planner that ships plans a wrong calculation for some questions, and one for some that ask for none. Most of these
plans are less probable than correct ones (selective prediction, Geifman and El-Yaniv, NeurIPS 2017).
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from math import log
from typing import Any

from agentflow.rl.micro.engine import Completion, Engine
from agentflow.rl.micro.tokenizer import MicroTokenizer

SUB_GOAL = "Say what this model knows"
CONTEXT = "The question is outside Atlas."
REPLY = (
    "I am the small model that comes with AgentFlow and know only Atlas, its invented encyclopedia, and some "
    "arithmetic. For other questions name a larger model, for example with --model openai:gpt-4o-mini."
)
"""The reply of the shipped checkpoint, by which `agentflow solve` knows it; it changes with a new checkpoint only."""

LEAST_PROBABILITY = 0.6
"""Probability of a plan, as the product over its tokens, below which a calculation is declined."""
CALCULATION = "Tool: python_coder"
DECLINING = f"Sub-Goal: {SUB_GOAL}\nTool: base_generator\nContext: {CONTEXT}"
"""The plan with which the model declines."""


@dataclass(frozen=True)
class DecliningEngine:
    """Engine of the planner in which a greedy plan of a calculation that is not probable enough becomes DECLINING.

    Sampled plans stay as they are. Tokens are handed on once the plan is complete.
    """

    engine: Engine
    tokenizer: MicroTokenizer

    @property
    def positions(self) -> int:
        """Maximum number of tokens of a prompt and its reply together."""
        return self.engine.positions

    def submit(
        self,
        prompt_ids: Sequence[int],
        *,
        temperature: float = 0.0,
        on_token: Callable[[int, float], None] | None = None,
        **options: Any,
    ) -> Future[Completion]:
        """Submit a request, as `Engine.submit`; the tokens of DECLINING have log-probability 0."""
        if temperature > 0:
            return self.engine.submit(prompt_ids, temperature=temperature, on_token=on_token, **options)
        drawn, settled = self.engine.submit(prompt_ids, **options), Future[Completion]()

        def settle(_: Future[Completion]) -> None:
            if drawn.cancelled() or not settled.set_running_or_notify_cancel():
                settled.cancel()
            elif error := drawn.exception():
                settled.set_exception(error)
            else:
                found = self._settled(drawn.result())
                for token, logprob in zip(found.token_ids, found.logprobs, strict=True):
                    if on_token:
                        on_token(token, logprob)
                settled.set_result(found)

        drawn.add_done_callback(settle)
        settled.add_done_callback(lambda done: drawn.cancel() if done.cancelled() else None)
        return settled

    def _settled(self, found: Completion) -> Completion:
        unsure = sum(found.logprobs) < log(LEAST_PROBABILITY)
        if not unsure or found.finish_reason != "stop" or CALCULATION not in found.text.splitlines():
            return found
        ids = [*self.tokenizer.encode(DECLINING), self.tokenizer.end_id]
        return replace(found, token_ids=ids, logprobs=[0.0] * len(ids), text=DECLINING)
