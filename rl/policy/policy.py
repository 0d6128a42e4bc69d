"""The model that is trained: a LangChain chat model named `policy`, which any node of a graph can call.

While a rollout runs, calls of the policy are answered by whatever serves the current weights: the trainer sets that
with `serving`, for this rollout alone. Outside of training they go to `fallback`, so that the same graph runs in
production. A call that belongs to no known rollout is refused: the fallback may cost money, and a call that is not
recorded is not trained on.

Graphs need not name the policy: it stands in for the models of nodes that learn (`agentflow.rl.policy.standing_in`).

A new thread starts with an empty context (`contextvars`), so a model call in it would belong to no rollout.
`inherit_context` has `Thread.start` pass the current context on, as Python 3.14 does with `-X thread_inherit_context`.
`ThreadPoolExecutor.submit` passes it to the submitted function, but not to the pool's threads, which other rollouts use
too.
"""

import asyncio
import os
import secrets
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any
from weakref import WeakSet

from langchain_core.caches import BaseCache
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field

from agentflow.graph.context import Sampling
from agentflow.graph.models.loading import load_model
from agentflow.graph.models.spec import ModelError
from agentflow.graph.tracing.observer import Observer
from agentflow.rl.policy.chat import (
    FORM,
    ChatError,
    ChatRequest,
    Conversations,
    Generate,
    TokenReply,
    as_chat_result,
    in_form,
)
from agentflow.rl.policy.node_paths import Nodes
from agentflow.tools.coded_error import CodedError
from agentflow.tools.json_codec import object_from_json

PATIENCE = 30.0
"""Seconds that a thread waits until the event loop begins its call; a loop that waits for the thread never does."""

UNDER_WAY = "AGENTFLOW_ROLLOUT"
"""Set in the environment while rollouts are under way, for processes that they start."""


class PromptTooLong(ModelError):
    """A conversation has outgrown what the policy may read."""

    cause = "policy"


class PolicyMisused(CodedError, RuntimeError):
    """A graph calls the policy where it cannot be answered; `str()` is one line that says what to change."""


@dataclass(eq=False)
class Serving:
    """A rollout under way, and what answers its policy's calls."""

    generate: Generate
    loop: asyncio.AbstractEventLoop
    """All calls are answered on it, wherever they come from."""
    process: int
    observer: Observer | None = None
    """The callback handler that records the rollout's calls; None if nothing does."""
    nodes: Nodes = ()
    """Patterns of the nodes whose models the policy stands in for; none fits all nodes."""
    conversations: Conversations = field(default_factory=Conversations)
    misused: PolicyMisused | None = None
    """The first call that was refused. It ends the rollout even if the graph, or a thread of it, passes it over."""
    failed: dict[str, Exception] = field(default_factory=dict)
    """By the path of a node's URL, why its last call failed; the node sees only its client's error."""
    secret: str = field(default_factory=lambda: secrets.token_hex(16))
    """Part of the URLs of its nodes (`agentflow.rl.rollout.capture`)."""
    captured: dict[str, Context] = field(default_factory=dict)
    """Contexts of the nodes that have a URL, by its path."""
    answering: WeakSet[asyncio.Task[Any]] = field(default_factory=WeakSet)
    """Calls that threads wait for."""

    def refuse(self, why: str, code: str = "") -> PolicyMisused:
        """Record that a call cannot be answered."""
        self.misused = self.misused or PolicyMisused(why, code=code)
        return self.misused


async def no_policy(request: ChatRequest) -> TokenReply:
    """Answer nothing: while this is served, every model answers by itself, and a `Policy` by its fallback."""
    raise AssertionError("a policy that is not there is not asked")


_serving: ContextVar[Serving | None] = ContextVar("agentflow policy", default=None)
_under_way: set[Serving] = set()
"""The rollouts of this process."""


@contextmanager
def serving(
    generate: Generate,
    observer: Observer | None = None,
    nodes: Nodes = (),
) -> Iterator[Serving]:
    """Answer the policy's calls by `generate` in the block, and in all tasks and threads that a graph starts in it."""
    inherit_context()
    loop = asyncio.get_running_loop()
    served = Serving(generate, loop, os.getpid(), observer, nodes)
    token = _serving.set(served)
    _under_way.add(served)
    os.environ[UNDER_WAY] = "1"
    try:
        yield served
    finally:
        _under_way.discard(served)
        for answer in served.answering:
            answer.cancel()  # a thread may outlive its rollout
        if not _under_way:
            os.environ.pop(UNDER_WAY, None)
        _serving.reset(token)


def rollout_of_context() -> Serving | None:
    """Return the rollout of this process that the context belongs to; None if it belongs to none.

    Raises PolicyMisused if that has ended: nobody waits for the call, and a model of the graph's own may cost money.
    """
    found = _serving.get()
    if found is None or found.process != os.getpid():
        return None
    if found not in _under_way:
        raise PolicyMisused("a model was called after its rollout had ended, by a thread that outlives it")
    return found


def rollouts_under_way() -> Collection[Serving]:
    """Return the rollouts of this process."""
    return tuple(_under_way)


def current_rollout() -> Serving | None:
    """Return the rollout that a call belongs to; None outside of training. Raises PolicyMisused if it is unknown."""
    found = rollout_of_context()
    if found is None and _serving.get() is not None:
        raise PolicyMisused("the policy was called in another process than its rollout's; call it in a thread instead")
    if found is None and UNDER_WAY in os.environ:
        why = (
            "the policy was called in a thread or process that does not know its rollout; start it in a node of the "
            "graph, or run the call with contextvars.copy_context() of the node"
        )
        refused = [one.refuse(why) for one in rollouts_under_way()]  # whose call it was cannot be told
        raise refused[0] if refused else PolicyMisused(why)
    return None if found and found.generate is no_policy else found


class Policy(BaseChatModel):
    """The trained model; `response_metadata` of a reply holds its ids, as the embedded model's does."""

    fallback: str = "embedded"
    """Spec of the model that answers outside of training."""
    cache: BaseCache | bool | None = Field(default=False, exclude=True)
    """Off: a trained reply must be sampled, and LangChain's cache returns replies without their ids."""
    sampling: Sampling = Sampling()
    """In training, the trainer sets temperature and top_p."""
    options: dict[str, Any] = Field(default_factory=dict, exclude=True)
    """Options of the model that it stands in for, which say what a reply has to be."""
    original: BaseChatModel | None = Field(default=None, exclude=True)
    """The model that it stands in for."""

    @property
    def _llm_type(self) -> str:
        return "agentflow-policy"

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | dict[str, Any] | bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Offer tools to the model; `tool_choice` is "auto", "any", "none" or the name of a tool."""
        described = [convert_to_openai_tool(tool) for tool in tools]
        if tool_choice is not None:
            kwargs["tool_choice"] = tool_choice
        return self.bind(tools=described, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        served = current_rollout()
        if served is None:
            return load_model(self.fallback, self.sampling)._generate(messages, stop, run_manager, **kwargs)
        if asyncio._get_running_loop() is served.loop:
            raise served.refuse(
                "an async node called model.invoke, which blocks the event loop that the answer needs; "
                "use `await model.ainvoke(...)`, or make the node a plain function"
            )
        _check_recorded(served, run_manager)
        begun, answer = self._submit(served, messages, stop, kwargs)
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
        served = current_rollout()
        if served is None:
            model = await asyncio.to_thread(load_model, self.fallback, self.sampling)
            return await model._agenerate(messages, stop, run_manager, **kwargs)
        _check_recorded(served, run_manager)
        if asyncio.get_running_loop() is served.loop:
            return await self._answer(served, messages, stop, kwargs)
        begun, answer = self._submit(served, messages, stop, kwargs)
        try:
            await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(begun)), PATIENCE)
        except TimeoutError as error:
            answer.cancel()
            raise served.refuse(_BLOCKED) from error
        return await asyncio.wrap_future(answer)

    def _submit(
        self, served: Serving, messages: list[BaseMessage], stop: list[str] | None, options: Mapping[str, Any]
    ) -> tuple[Future[None], Future[ChatResult]]:
        """Submit a call from another thread. Return futures of its begin on the rollout's loop, and of its answer."""
        begun: Future[None] = Future()

        async def answered() -> ChatResult:
            task = asyncio.current_task()
            assert task
            served.answering.add(task)
            begun.set_result(None)
            return await self._answer(served, messages, stop, options)

        return begun, asyncio.run_coroutine_threadsafe(answered(), served.loop)

    async def _answer(
        self, served: Serving, messages: list[BaseMessage], stop: list[str] | None, options: Mapping[str, Any]
    ) -> ChatResult:
        try:
            given = {name: value for name, value in options.items() if name != FORM}
            options = {**self.options, **options}
            request = served.conversations.request(messages, self._limits(stop, options), options)
            if self.original:
                stops = {"stop": stop} if stop else {}
                request = replace(request, original=(self.original, messages, {**given, **stops}))
            reply = await served.generate(request)
        except ChatError as error:
            raise served.refuse(str(error), error.code) from error
        reply = in_form(reply, request) if request.form else reply
        result = as_chat_result(reply, "policy")
        message = result.generations[0].message
        assert isinstance(message, AIMessage)
        served.conversations.remember(message, reply)
        if request.form and (found := object_from_json(reply.text)) is not None:
            message.additional_kwargs["parsed"] = found  # where OpenAI's own chat model has it
        return result

    def _limits(self, stop: list[str] | None, options: Mapping[str, Any]) -> Sampling:
        """Return the limits of a call, of which the keyword arguments of the call take precedence."""
        names = ("max_tokens", "max_completion_tokens", "max_output_tokens")
        given = next((options[name] for name in names if isinstance(options.get(name), int)), None)
        limits: dict[str, Any] = {**({"stop": tuple(stop)} if stop else {}), **({"max_tokens": given} if given else {})}
        return self.sampling.model_copy(update=limits) if limits else self.sampling


def _check_recorded(
    served: Serving, run_manager: AsyncCallbackManagerForLLMRun | CallbackManagerForLLMRun | None
) -> None:
    """Raise PolicyMisused for a call that the rollout's observer does not see, which could not be trained on."""
    if served.observer and (run_manager is None or served.observer.path(run_manager.run_id) is None):
        raise served.refuse(
            "a model call of the policy is not seen by the graph's callbacks; call the model in a node, with the "
            "config that the node got or none"
        )


_BLOCKED = (
    f"the event loop has not run for {PATIENCE:g} s: an async node waits for threads that call the policy, which the "
    "answer needs the loop for; use `await asyncio.to_thread(...)`, or make the node a plain function"
)


def load(model: str, sampling: Sampling) -> Policy:
    """Return the model of the entry point `policy`; `policy:SPEC` falls back to SPEC."""
    return Policy(fallback=model or "embedded", sampling=sampling)


@cache
def inherit_context() -> None:
    """Patch `threading` and `ThreadPoolExecutor` so that threads inherit the context of their starter.

    Only threads started in a rollout inherit it. The patch applies to the whole process.
    """
    start: Any = threading.Thread.start
    submit: Any = ThreadPoolExecutor.submit

    def started(self: threading.Thread) -> None:
        if _serving.get() is not None:
            context, run = copy_context(), self.run
            self.run = lambda: context.run(run)  # type: ignore[method-assign]
        start(self)

    def submitted(self: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if _serving.get() is not None:
            found: Future[Any] = Context().run(submit, self, copy_context().run, _without_exit, fn, *args, **kwargs)
        else:
            found = submit(self, fn, *args, **kwargs)
        return found

    threading.Thread.start = started  # type: ignore[method-assign]
    ThreadPoolExecutor.submit = submitted  # type: ignore[method-assign,assignment]


def _without_exit(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a function of a rollout; `exit()` in it is an error, since it would end the process with all rollouts."""
    try:
        return function(*args, **kwargs)
    except SystemExit as error:
        raise RuntimeError(f"exit({error.code!r}) was called").with_traceback(error.__traceback__) from None
