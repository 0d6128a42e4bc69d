"""The model that is trained, as any LangGraph node can call it: a LangChain chat model named `policy`.

A graph is built once, with `Policy()` in the nodes that shall learn. While a rollout is under way, its calls are
answered by whatever serves the current weights: the trainer sets that with `serving`, for this rollout alone. Outside
of training they go to `fallback`, so that the same graph runs in production. Within it, a call that belongs to no known
rollout is refused: the fallback may cost money, and what is not recorded is not trained on.
"""

import asyncio
import os
from collections.abc import Awaitable, Iterator, Sequence
from concurrent.futures import Future
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
from agentflow.rl.threads import inherit_context

ROLES = {"system": "system", "human": "user", "ai": "assistant"}
"""Types of LangChain messages and the roles of chat templates."""

IDS = ("prompt_token_ids", "token_ids", "logprobs")
"""Names of what a reply's metadata says of its tokens: a list each."""


PATIENCE = 30.0
"""Seconds that a thread waits until the event loop begins its call; a loop that waits for the thread never does."""

UNDER_WAY = "AGENTFLOW_ROLLOUT"
"""Set in the environment while rollouts are under way, for processes that they start."""


class PromptTooLong(ModelError):
    """A conversation has outgrown what the policy may read."""


class PolicyMisused(RuntimeError):
    """A graph calls the policy where it cannot be answered; `str()` is one line that says what to change."""


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


@dataclass(eq=False)
class Serving:
    """A rollout under way, and what answers its policy's calls."""

    generate: Generate
    loop: asyncio.AbstractEventLoop
    """All calls are answered on it, wherever they come from."""
    process: int
    misused: PolicyMisused | None = None
    """The first call that was refused. It ends the rollout even if the graph, or a thread of it, passes it over."""

    def refuse(self, why: str) -> PolicyMisused:
        """Records that a call cannot be answered."""
        self.misused = self.misused or PolicyMisused(why)
        return self.misused


_serving: ContextVar[Serving | None] = ContextVar("agentflow policy", default=None)
_under_way: set[Serving] = set()
"""The rollouts of this process."""


def _in_rollout() -> bool:
    return _serving.get() is not None


@contextmanager
def serving(generate: Generate) -> Iterator[Serving]:
    """Within the block, and in all tasks and threads that a graph starts in it, `generate` answers `Policy`."""
    inherit_context(_in_rollout)
    served = Serving(generate, asyncio.get_running_loop(), os.getpid())
    token = _serving.set(served)
    _under_way.add(served)
    os.environ[UNDER_WAY] = "1"
    try:
        yield served
    finally:
        _under_way.discard(served)
        if not _under_way:
            os.environ.pop(UNDER_WAY, None)
        _serving.reset(token)


def _served() -> Serving | None:
    """The rollout that a call is of; None outside of training. Raises PolicyMisused where it cannot be told."""
    found = _serving.get()
    if found is not None and found.process != os.getpid():
        raise PolicyMisused("the policy was called in another process than its rollout's; call it in a thread instead")
    if found is not None and found not in _under_way:
        raise PolicyMisused("the policy was called after its rollout had ended, by a thread that outlives it")
    if found is None and UNDER_WAY in os.environ:
        why = (
            "the policy was called in a thread or process that does not know its rollout; start it in a node of the "
            "graph, or run the call with contextvars.copy_context() of the node"
        )
        refused = [one.refuse(why) for one in tuple(_under_way)]  # whose call it was cannot be told
        raise refused[0] if refused else PolicyMisused(why)
    return found


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
        served = _served()
        if served is None:
            return load_model(self.fallback, self.sampling)._generate(messages, stop, run_manager, **kwargs)
        if asyncio._get_running_loop() is served.loop:
            raise served.refuse(
                "an async node called model.invoke, which blocks the event loop that the answer needs; "
                "use `await model.ainvoke(...)`, or make the node a plain function"
            )
        begun, answer = self._submit(served, messages, stop)
        try:
            begun.result(PATIENCE)
        except TimeoutError as error:
            answer.cancel()
            raise served.refuse(_BLOCKED) from error
        return answer.result()

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        served = _served()
        if served is None:
            model = await asyncio.to_thread(load_model, self.fallback, self.sampling)
            return await model._agenerate(messages, stop, run_manager, **kwargs)
        if asyncio.get_running_loop() is served.loop:
            return await self._answer(served.generate, messages, stop)
        begun, answer = self._submit(served, messages, stop)
        try:
            await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(begun)), PATIENCE)
        except TimeoutError as error:
            answer.cancel()
            raise served.refuse(_BLOCKED) from error
        return await asyncio.wrap_future(answer)

    def _submit(
        self, served: Serving, messages: list[BaseMessage], stop: list[str] | None
    ) -> tuple[Future[None], Future[ChatResult]]:
        """Submit a call from another thread. Returns futures of its begin on the rollout's loop, and of its answer."""
        begun: Future[None] = Future()

        async def answered() -> ChatResult:
            begun.set_result(None)
            return await self._answer(served.generate, messages, stop)

        return begun, asyncio.run_coroutine_threadsafe(answered(), served.loop)

    async def _answer(self, generate: Generate, messages: list[BaseMessage], stop: list[str] | None) -> ChatResult:
        unknown = next((message.type for message in messages if message.type not in ROLES), None)
        if unknown is not None:
            raise ModelError(f"the policy reads system, human and ai messages, not '{unknown}'", configuration=False)
        sampling = self.sampling.model_copy(update={"stop": tuple(stop)}) if stop else self.sampling
        reply = await generate([(ROLES[message.type], str(message.text)) for message in messages], sampling)
        return as_chat_result(reply, "policy")


_BLOCKED = (
    f"the event loop has not run for {PATIENCE:g} s: an async node waits for threads that call the policy, which the "
    "answer needs the loop for; use `await asyncio.to_thread(...)`, or make the node a plain function"
)


def as_chat_result(reply: TokenReply, model_name: str) -> ChatResult:
    """A reply as LangChain hands it on, with its ids where `TokenCollector` reads them."""
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
