"""A model that knows the sums and plays every part of the example agents with tools, with mistakes at a given rate.

Its mistakes are those of a small model: it guesses instead of calling a tool, calls the wrong tool or two at once,
takes numbers of the question where a result belongs, stops early, or writes a call that cannot be read. After a mistake
it continues from the result that it got.
"""

import json
import random
import re
from collections.abc import Sequence
from typing import Any

from agentflow.rl.policy.chat import ChatRequest, TokenReply
from agentflow.rl.policy.chat_format import ChatFormat

SUM = re.compile(r"What is (\d+) (plus|times) (\d+)(?:, times (\d+))?")


class Oracle:
    """Policy that plays all nodes; an `agentflow.rl.policy.chat.Generate`."""

    def __init__(self, known: ChatFormat, mistakes: float, seed: str) -> None:
        """`mistakes` is the probability of a mistake in a reply that can have one."""
        self.format, self.mistakes, self.rng = known, mistakes, random.Random(f"oracle {seed}")
        self.replies = 0

    async def __call__(self, request: ChatRequest) -> TokenReply:
        """Return the reply as if it had been sampled."""
        self.replies += 1
        text = self.reply(request)
        ids = [*self.format.tokenizer.encode(text, add_special_tokens=False), self.format.tokenizer.eos_token_id or 0]
        logprobs = [0.0] * len(ids)
        return self.format.reply(request, f"reply {self.replies}", self.format.prompt_ids(request), ids, logprobs)

    def reply(self, request: ChatRequest) -> str:
        """Choose what to say: one of the right ways, or one of the wrong ones."""
        right, *wrong = self.ways(request)
        return self.rng.choice(wrong) if wrong and self.rng.random() < self.mistakes else right

    def ways(self, request: ChatRequest) -> Sequence[str]:
        """Return what can be said in this place, the right reply first."""
        task = next(found for message in request.messages if (found := SUM.search(str(message["content"]))))
        a, operator, b, c = int(task[1]), task[2], int(task[3]), int(task[4] or 0)
        names = {str(tool["function"]["name"]) for tool in request.tools}
        if "Sum" in names:
            return _form(a, operator, b)
        said = [message for message in request.messages if message["role"] in ("assistant", "tool")]
        results = [int(number) for message in said for number in re.findall(r"\d+", str(message["content"]))]
        called = [call["function"]["name"] for message in said for call in message.get("tool_calls", ())]
        return self._step(names, called, results, (a, b, c))

    def _step(self, names: set[str], called: list[str], results: list[int], task: tuple[int, int, int]) -> list[str]:
        """Return the ways of an agent with the tools `names`, after the calls `called` and their results."""
        a, b, c = task
        stop = f"It is {results[-1] if results else self.rng.randint(a, a * b)}."
        steps = {"add": (a, b)} | ({"multiply": (results[-1] if results else a, c)} if c else {})
        done = {step for step in steps if step in called or (step not in names and _transfer(step) in called)}
        step = next((step for step in steps if step not in done), "")
        if not names & {step, _transfer(step)}:
            return [stop]
        others = [_transferred(name, steps[step]) for name in sorted(names - {step, _transfer(step)})]
        if step not in names:
            return [_call(_transfer(step)), *others, stop]
        wrong = _call(step, *((b, c) if c else (a, a)))
        if step == "add" and c and "multiply" in names:
            others.append(_call("add", a, b) + _call("multiply", b, c))
        right = _call(step, *steps[step])
        return [right, wrong, _broken(right), *others, stop]


def _transfer(step: str) -> str:
    return {"add": "transfer_to_adder", "multiply": "transfer_to_multiplier"}.get(step, "")


def _transferred(name: str, numbers: tuple[int, int]) -> str:
    return _call(name, *(() if name.startswith("transfer") else numbers))


def _form(a: int, operator: str, b: int) -> list[str]:
    right, wrong = (_written({"name": "Sum", "arguments": {"a": a, "b": c, "operator": operator}}) for c in (b, a))
    return [right, wrong, _broken(right)]


def _call(name: str, *numbers: int) -> str:
    return _written({"name": name, "arguments": dict(zip("ab", numbers, strict=False))})


def _broken(call: str) -> str:
    """Return a call without its last brace."""
    return call.replace("}}<", "}<")


def _written(call: dict[str, Any]) -> str:
    return f"<tool_call>{json.dumps(call)}</tool_call>"
