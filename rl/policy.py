"""The model that is trained, as any LangGraph node can call it: a LangChain chat model named `policy`.

A graph is built once, with `Policy()` in the nodes that shall learn. While a rollout is under way, its calls are
answered by whatever serves the current weights: the trainer sets that with `serving`, for this rollout alone. Outside
of training they go to `fallback`, so that the same graph runs in production.
"""

import asyncio
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

from langchain_core.caches import BaseCache
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field

from agentflow.graph.context import Sampling
from agentflow.graph.models.loading import load_model
from agentflow.graph.models.spec import ModelError

ROLES = {"system": "system", "human": "user", "ai": "assistant"}
"""Types of LangChain messages and the roles of chat templates."""

IDS = ("prompt_token_ids", "token_ids", "logprobs")
"""Names of what a reply's metadata says of its tokens: a list each."""


class PromptTooLong(ModelError):
    """A conversation has outgrown what the policy may read."""


@dataclass(frozen=True)
class TokenReply:
    """A reply with the ids that it is made of. Invariant: token_ids and logprobs have the same length."""

    text: str
    prompt_ids: list[int]
    token_ids: list[int]
    logprobs: list[float]
    finish_reason: str
    weights_version: int = 0
    """Training step of the weights that wrote it."""


class Generate(Protocol):
    """Serves the current weights of the policy."""

    def __call__(self, messages: Sequence[tuple[str, str]], sampling: Sampling) -> Awaitable[TokenReply]:
        """The reply to (role, content) messages; of `sampling`, only max_tokens and stop are the caller's to set."""
        ...


_serving: ContextVar[tuple[Generate, asyncio.AbstractEventLoop] | None] = ContextVar("agentflow policy", default=None)


@contextmanager
def serving(generate: Generate) -> Iterator[None]:
    """Within the block, and in all tasks and threads that a graph starts in it, `generate` answers `Policy`."""
    token = _serving.set((generate, asyncio.get_running_loop()))
    try:
        yield
    finally:
        _serving.reset(token)


class Policy(BaseChatModel):
    """The trained model; `response_metadata` of a reply holds its ids, as the embedded model's does."""

    fallback: str = "embedded"
    """Spec of the model that answers outside of training."""
    cache: BaseCache | bool | None = Field(default=False, exclude=True)
    """What is trained on has to be sampled; LangChain's cache would hand on a reply without its ids."""
    sampling: Sampling = Sampling()
    """In training, the trainer sets temperature and top_p."""

    @property
    def _llm_type(self) -> str:
        return "agentflow-policy"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        served = _serving.get()
        if served is None:
            return load_model(self.fallback, self.sampling)._generate(messages, stop, run_manager, **kwargs)
        generate, loop = served
        answer = self._answer(generate, messages, stop)
        return asyncio.run_coroutine_threadsafe(answer, loop).result()

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        served = _serving.get()
        if served is None:
            model = await asyncio.to_thread(load_model, self.fallback, self.sampling)
            return await model._agenerate(messages, stop, run_manager, **kwargs)
        return await self._answer(served[0], messages, stop)

    async def _answer(self, generate: Generate, messages: list[BaseMessage], stop: list[str] | None) -> ChatResult:
        unknown = next((message.type for message in messages if message.type not in ROLES), None)
        if unknown is not None:
            raise ModelError(f"the policy reads system, human and ai messages, not '{unknown}'", configuration=False)
        sampling = self.sampling.model_copy(update={"stop": tuple(stop)}) if stop else self.sampling
        reply = await generate([(ROLES[message.type], str(message.text)) for message in messages], sampling)
        return as_chat_result(reply, "policy")


def as_chat_result(reply: TokenReply, model_name: str) -> ChatResult:
    """A reply as LangChain hands it on, with its ids where `TraceCollector` reads them."""
    message = AIMessage(
        content=reply.text,
        usage_metadata=UsageMetadata(
            input_tokens=len(reply.prompt_ids),
            output_tokens=len(reply.token_ids),
            total_tokens=len(reply.prompt_ids) + len(reply.token_ids),
        ),
        response_metadata={
            "model_name": model_name,
            "finish_reason": reply.finish_reason,
            "prompt_token_ids": reply.prompt_ids,
            "token_ids": reply.token_ids,
            "logprobs": reply.logprobs,
            "weights_version": reply.weights_version,
        },
    )
    return ChatResult(generations=[ChatGeneration(message=message)])


def load(model: str, sampling: Sampling) -> Policy:
    """Entry point `policy`; `policy:SPEC` falls back to SPEC."""
    return Policy(fallback=model or "embedded", sampling=sampling)
