"""A chat model whose replies a test scripts module by module. It is loaded as any model is: by a spec.

script = Scripted(planner=["Sub-Goal: ...", ...], verifier=lambda conversation: "Verdict: stop")
script.install(monkeypatch)
await build_graph().ainvoke(..., context=Context(model=script.spec))
assert script.asked("planner")
"""

import inspect
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.metadata import EntryPoint
from itertools import count
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool

from agentflow.graph import context
from agentflow.graph.context import Sampling
from agentflow.graph.models import loading
from agentflow.nodes import analyst, executor, follow_up, generator, planner, verifier
from tests import fake_openai

Conversation = list[BaseMessage]
Reply = str | list[str] | Callable[[Conversation], str | Awaitable[str]]
"""One text for every call, one per call of which the last repeats, or a function of the conversation."""

PLAN = "Sub-Goal: repeat it\nTool: echo\nContext: hello"
GUESS: Any = {"planner": PLAN.replace("echo", "base_generator"), "executor": '{"query": "hello"}'}
"""Replies with which an agent without tools of a test asks its `base_generator`."""
CONTINUE = "Analysis: More is needed.\nVerdict: continue"
STOP = "Analysis: The word is hello.\nVerdict: stop"
THREAD: Any = {"configurable": {"thread_id": "1"}}


def question(text: str = "Which word?") -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


@tool
async def echo(text: str) -> str:
    """Repeats a text."""
    return text


DEFAULTS: dict[str, Reply] = {
    "analyst": "One word is asked for.",
    "follow_up": "",  # the question stays as it is
    "planner": PLAN,
    "executor": '{"text": "hello"}',
    "verifier": STOP,
    "generator": "Answer: hello",
    "tools": "a guess",
}
_BEGINNINGS = {
    text.split("{")[0]: module.__name__.rpartition(".")[2]
    for module in (analyst, follow_up, planner, executor, verifier, generator)
    for text in getattr(module, "PROMPTS", {"paper": module.PROMPT}).values()
}


def module_of(system: str) -> str:
    """The module whose instructions begin like that; "tools" for any others."""
    return next((name for start, name in _BEGINNINGS.items() if system.startswith(start)), "tools")


def modules(**replies: str | Callable[[dict[str, Any]], fake_openai.Reply]) -> fake_openai.Script:
    """A script for the wire: a reply for each module, and DEFAULTS for the others."""

    def script(body: dict[str, Any]) -> fake_openai.Reply:
        found: Any = {**DEFAULTS, **replies}[module_of(body["messages"][0]["content"])]
        return found(body) if callable(found) else found

    return script


_numbers = count(1)
_scripts: dict[str, "Scripted"] = {}


class Scripted:
    """The replies of one test, and what was asked."""

    def __init__(self, **replies: Reply) -> None:
        self.name = str(next(_numbers))
        self.spec = f"scripted:{self.name}"
        self.replies = {**DEFAULTS, **replies}
        self.calls: list[tuple[str, Conversation]] = []

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Until the end of the test, the spec leads here, and so do "embedded" and its shipped checkpoints."""
        point = EntryPoint("scripted", "tests.scripted:load", "agentflow.models")
        monkeypatch.setattr(loading, "_kept", {})
        monkeypatch.setattr(context, "profile_of", lambda provider: "paper")
        monkeypatch.setattr(loading, "installed", lambda: {"scripted": point, "embedded": point})
        monkeypatch.setitem(_scripts, self.name, self)
        for name in ("", "seed", "trained"):
            monkeypatch.setitem(_scripts, name, self)

    def asked(self, module: str) -> list[Conversation]:
        return [conversation for name, conversation in self.calls if name == module]

    async def reply(self, conversation: Conversation) -> str:
        module = module_of(conversation[0].text)
        self.calls.append((module, list(conversation)))
        reply = self.replies[module]
        if isinstance(reply, list):
            return reply[min(len(self.asked(module)), len(reply)) - 1]
        if isinstance(reply, str):
            return reply
        given = reply(conversation)
        return await given if inspect.isawaitable(given) else given


class ScriptedModel(BaseChatModel):
    script: str

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, *args: Any, **options: Any) -> ChatResult:
        raise NotImplementedError("the nodes ask asynchronously")

    async def _agenerate(self, messages: Conversation, *args: Any, **options: Any) -> ChatResult:
        reply = await _scripts[self.script].reply(messages)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(reply))])

    async def _astream(
        self, messages: Conversation, stop: Any = None, run_manager: Any = None, **options: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        """Stream the reply word by word, where somebody listens."""
        for word in re.findall(r"\s*\S+|\s+", await _scripts[self.script].reply(messages)) or [""]:
            chunk = ChatGenerationChunk(message=AIMessageChunk(word))
            if run_manager:
                await run_manager.on_llm_new_token(word, chunk=chunk)
            yield chunk


def load(name: str, sampling: Sampling) -> BaseChatModel:
    return ScriptedModel(script=name)


Script = Callable[..., Scripted]
"""Type of the fixture `scripted`, which takes the replies and installs the model."""
