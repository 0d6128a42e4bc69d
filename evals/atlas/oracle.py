"""The oracle, a chat model for the agent's modules that knows every solution of Atlas.

It runs in the real graph, with its prompts, parsers and tools: `agentflow eval atlas --model atlas-oracle` measures the
upper bound.
"""

import json
from functools import lru_cache
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from agentflow.evals.atlas.families import Problem, Step, questions
from agentflow.evals.atlas.world import Split
from agentflow.graph.context import Sampling
from agentflow.graph.models.providers import knows_only

KNOWN: tuple[tuple[Split, int], ...] = (("test", 240), ("train", 240), ("test", 1200), ("train", 1200))
"""Sets of questions that the oracle knows, as split and number, in search order: small ones first, to generate few."""

MORE, DONE = "More is needed.", "That answers the question."


def analyst_reply(question: Problem) -> str:
    """Return the reply of a perfect analyst."""
    return f"Asked for: {question.asked}. Takes: {question.takes}."


def planner_reply(step: Step) -> str:
    """Return a step in the format of the planner's prompt."""
    return f"Sub-Goal: {step.sub_goal}\nTool: {step.tool}\nContext: {step.context}"


def executor_reply(arguments: dict[str, Any]) -> str:
    """Return the arguments as JSON, or a program as a Python code block."""
    if set(arguments) == {"code"}:
        return f"```python\n{arguments['code']}\n```"
    return json.dumps(arguments, ensure_ascii=False)


def verifier_reply(finding: str, *, done: bool) -> str:
    """Return a finding and the stop or continue signal in the format of the verifier's prompt."""
    return f"Analysis: {finding} {DONE if done else MORE}\nVerdict: {'stop' if done else 'continue'}"


def generator_reply(answer: str) -> str:
    """Return the answer in the format of the generator's prompt."""
    return f"Answer: {answer}"


class Oracle(BaseChatModel):
    """Chat model that answers each module's prompt from the known solution of the question in it."""

    @property
    def _llm_type(self) -> str:
        return "atlas-oracle"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        reply = self._reply([message.text for message in messages])
        return ChatResult(generations=[ChatGeneration(message=AIMessage(reply))])

    def _reply(self, texts: list[str]) -> str:
        system, conversation = texts[0], "\n".join(texts[1:])
        if "Request: " in system:  # the model behind base_generator has no system prompt
            return _find("requests", system.partition("Request: ")[2]) or "unknown"
        if system.startswith("You carry out one step"):
            return _arguments(system, conversation)
        question: Problem | None = _find(
            "questions", conversation.partition("Question: ")[2].partition("\n")[0].strip()
        )
        if question is None:
            return "Answer: unknown\nVerdict: stop"
        found = sum(f"{step.finding} " in conversation for step in question.steps)
        if system.startswith("You prepare"):
            return analyst_reply(question)
        if system.startswith("You are the planner"):
            return planner_reply(question.steps[min(found, len(question.steps) - 1)])
        if system.startswith("You check"):
            return _judge(question, found, texts[-1])
        return generator_reply(question.answer if found == len(question.steps) else "unknown")


def _judge(question: Problem, found: int, last: str) -> str:
    """Return a verdict with the next finding if the last result is the expected one, else with a failure."""
    step = question.steps[min(found, len(question.steps) - 1)]
    if last.rstrip().endswith(f"Result: {step.output}"):
        return verifier_reply(step.finding, done=found == len(question.steps) - 1)
    return verifier_reply("The step brought nothing.", done=False)


def _arguments(system: str, step_text: str) -> str:
    step: Step | None = _find("steps", step_text)
    if step and step.tool in system.split(":")[0]:
        return executor_reply(step.arguments)
    context = step_text.partition("Context: ")[2]
    return executor_reply({"code": context} if "python_coder" in system.split(":")[0] else {"query": context})


def _find(kind: str, key: str) -> Any:
    return next((known[kind][key] for known in map(_index, KNOWN) if key in known[kind]), None)


@lru_cache(maxsize=len(KNOWN))
def _index(known: tuple[Split, int]) -> dict[str, dict[str, Any]]:
    """Return questions by text, steps by their text in the executor's prompt, base_generator's outputs by query."""
    asked = questions(*known)
    steps = [step for question in asked for step in question.steps]
    return {
        "questions": {question.question: question for question in asked},
        "steps": {f"Sub-Goal: {step.sub_goal}\nContext: {step.context}": step for step in steps},
        "requests": {step.arguments["query"]: step.output for step in steps if step.tool == "base_generator"},
    }


@knows_only("atlas")
def load_oracle(model: str, sampling: Sampling) -> Oracle:
    """Load the oracle: entry point `atlas-oracle`."""
    return Oracle()
