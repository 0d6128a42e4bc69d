"""Models by name: `load_model` returns the chat model of a spec, and `complete` calls it.

Models are built at first use and cached by endpoint, key and sampling parameters. The environment is read at each
`load_model`, so that a missing or wrong key can be corrected while the program runs. `spec` documents the specs,
`endpoint` the requests, and `errors` the failures. The latter two import the OpenAI SDK, which takes a second, so they
are loaded with the first model that needs them.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol, runtime_checkable

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig, ensure_config
from langgraph.constants import TAG_NOSTREAM

from agentflow.graph.context import Context, Model, Module, Sampling
from agentflow.graph.models.chat_models import initialised, with_sampling
from agentflow.graph.models.listing import with_sole_model
from agentflow.graph.models.providers import installed
from agentflow.graph.models.reply import CLOSING, MUTE, OPENING, REMEDIES, judged, thoughts, written
from agentflow.graph.models.spec import PROVIDERS, Endpoint, ModelError, ModelSpec, endpoint_of, misconfigured, parse
from agentflow.graph.models.structured import ReplyForm, whole_fields
from agentflow.tools.langchain_tracing import redact_langchain_tracing
from agentflow.tools.untrusted_text import one_line

MODULE = "agentflow_module"
"""Key in a model call's metadata for the module that makes it."""

MOST = 64
"""Maximum number of cached models."""

_UNSET = Sampling()

_Key = tuple[Endpoint | ModelSpec, Sampling]

_kept: dict[_Key, BaseChatModel] = {}
"""The `MOST` models that were built last."""

_prompted: set[str] = set()
"""Models whose prompts open the thought of a reply, as one with a closing mark alone has shown."""

_building = threading.Lock()
"""Held while a model is built, so that concurrent requests for a model build it once."""


@runtime_checkable
class Served(Protocol):
    """A chat model behind a server."""

    @property
    def unsupported_forms(self) -> set[str]:
        """Return the ways to request the form of a reply that its server refused or ignored."""

    async def explain(self, error: Exception) -> ModelError:
        """Return an error as one line, with its remedy."""


@runtime_checkable
class Fingerprinted(Protocol):
    """A chat model whose weights are local files, which may change under the same name."""

    @property
    def fingerprint(self) -> str:
        """Return a hash of everything on which its replies depend."""


def load_model(spec: str, sampling: Sampling = _UNSET) -> BaseChatModel:
    """Return the chat model that `spec` names, with `sampling` in each of its requests; the same object for the same
    settings.

    There is one case in which a request is sent: if `spec` gives no model for a server that needs no key, such as
    `openai-compatible@URL`, the server is asked for its model's name, with a timeout of three seconds.

    Raises:
        ModelError: The spec is wrong, its provider unknown or not installed, or its API key missing.
    """
    redact_langchain_tracing()
    key = _key(spec, sampling)
    with _building:
        model = _kept.get(key)
        if model is None:
            model = _kept[key] = _built(*key)
            while len(_kept) > MOST:
                del _kept[next(iter(_kept))]
        return model


async def aload_model(spec: Model, sampling: Sampling = _UNSET) -> BaseChatModel:
    """Load a model as `load_model` does, but do not block the event loop while libraries and weights are read from
    disk. A chat model instead of a spec is returned with `sampling`.
    """
    if not isinstance(spec, str):
        return with_sampling(spec, sampling)
    model = _kept.get(_key(spec, sampling))  # usually a hit; a thread per call would take a third of a rollout's time
    return model if model is not None else await asyncio.to_thread(load_model, spec, sampling)


async def complete(model: BaseChatModel, messages: list[BaseMessage], config: RunnableConfig | None = None) -> str:
    """Return what the model's reply says. Raises as `reply_of` does."""
    return written(await reply_of(model, messages, config))


async def reply_of(
    model: BaseChatModel, messages: list[BaseMessage], config: RunnableConfig | None = None, **fields: Any
) -> AIMessage:
    """Return the model's reply to a request with further `fields`.

    Raises ModelError for any failure of the provider, and for a reply that cannot be read (`reply.judged`); and
    TimeoutError and asyncio.CancelledError at the caller's own deadline.
    """
    async with explained(model):
        return _readable(await model.ainvoke(messages, config, **fields))


def _readable(reply: AIMessage) -> AIMessage:
    if (fate := judged(reply)) in REMEDIES:
        refusal, model = reply.additional_kwargs.get("refusal"), reply.response_metadata.get("model_name")
        sentence = REMEDIES[fate].format(why=f" ({one_line(refusal, 200)})" if refusal else "")
        raise ModelError(f"{one_line(model or 'the model', 100)}: {sentence}", code=fate)
    return reply


@asynccontextmanager
async def explained(model: BaseChatModel) -> AsyncIterator[None]:
    """Raise a failure of the model's provider as ModelError, in one line with its remedy."""
    try:
        yield
    except (ModelError, TimeoutError):
        raise
    except Exception as error:
        # A provider is external code and may raise any exception.
        if isinstance(model, Served):
            raise await model.explain(error) from error
        raise ModelError(
            f"the model failed ({type(error).__name__}: {one_line(error, 200)}); try another one", code="model_failed"
        ) from error


async def ask(context: Context, module: Module, messages: list[BaseMessage], form: ReplyForm | None = None) -> str:
    """Return the reply of the run's model for `module`, without its thoughts. Raises as `reply_of` does.

    The server enforces `form` as `Context.structured_output` says, if it can; otherwise the reply is free text.
    """
    return (await thought_and_said(context, module, messages, form))[1]


async def thought_and_said(
    context: Context, module: Module, messages: list[BaseMessage], form: ReplyForm | None = None
) -> tuple[str, str]:
    """Return the thoughts that the server tells apart, and the reply, as `ask` does."""
    model, config = await aload_model(context.model_of(module), context.sampling_of(module)), called_by(module)
    mode, failure = context.structured_output if form else "off", None
    if form and mode == "always" and (reply := await enforced(model, messages, form, config)):
        return thoughts(reply), written(reply)
    thought = ""
    try:
        reply = await reply_of(model, messages, config)
        thought, text = thoughts(reply), written(reply)
        if CLOSING.search(reply.text) and not OPENING.match(reply.text):
            _prompted.add(context.model_name_of(module))
    except ModelError as error:
        if mode == "off" or error.code not in MUTE:
            raise
        text, failure = "", error
    if form and mode == "auto" and not form.readable(text):
        with suppress(ModelError):  # the free reply has been paid for
            if reply := await enforced(model, messages, form, config):
                return thoughts(reply), written(reply)
    if failure:
        raise failure
    return thought, text


async def decide(model: Any, conversation: Sequence[BaseMessage], question: Any) -> Any:
    """Return the answer of a decision model of LangChain to `question`, a `Noul` or a `Choice`.

    Raises as `reply_of` does.
    """
    async with explained(model):
        answer = (await model.ainvoke({"state": [*conversation], "questions": {"asked": question}})).answers["asked"]
        if answer.type != question.type:
            raise TypeError(f"it answered with a {answer.type}, not a {question.type}")
        return answer


async def stream_text(context: Context, module: Module, messages: list[BaseMessage]) -> AsyncIterator[str]:
    """Yield the reply of the run's model for `module` as it is written. Raises as `reply_of` does."""
    model, chunks = await aload_model(context.model_of(module), context.sampling_of(module)), []
    held, hidden = "", context.model_name_of(module) in _prompted
    async with explained(model):
        async for chunk in model.astream(messages, called_by(module)):
            chunks.append(chunk)
            held += chunk.text
            if not (hidden := hidden and not CLOSING.search(held, max(0, len(held) - len(chunk.text) - 100))):
                yield held
                held = ""
    yield held
    if chunks:  # one alone may be the whole message of a model that does not stream
        _readable(chunks[0] + chunks[1:] if len(chunks) > 1 else chunks[0])


async def enforced(
    model: BaseChatModel, messages: list[BaseMessage], form: ReplyForm, config: RunnableConfig | None = None
) -> AIMessage | None:
    """Return a reply in `form`, or None if the server cannot enforce it or too little was written before the cut.

    Raises ModelError as `reply_of` does, but not if the server refuses the form or fails on it.
    """
    if not isinstance(model, Served):
        return None
    unsupported = model.unsupported_forms
    for way, fields in form.requests():
        if way in unsupported:
            continue
        try:
            reply = await reply_of(model, messages, config, extra_body=fields)
        except ModelError as error:
            if error.code not in ("bad_request", "bad_setting", "server_error"):
                raise
            unsupported.add(way)
            continue
        if form.readable(written(reply)):
            return reply
        if reply.response_metadata.get("finish_reason") == "length":
            whole = whole_fields(written(reply))
            return reply.model_copy(update={"content": whole}) if form.readable(whole) else None
        unsupported.add(way)  # the server ignored the field
    return None


def called_by(module: Module) -> RunnableConfig:
    """Return the config of a call on behalf of `module`, which callbacks find in its metadata under `MODULE`."""
    around = ensure_config()
    # The generator streams the answer itself, without what only its parser reads.
    tags = [TAG_NOSTREAM] if module == "generator" else []
    return {"metadata": {**around.get("metadata", {}), MODULE: module}, "tags": [*around.get("tags", []), *tags]}


def _key(spec: str, sampling: Sampling) -> _Key:
    parsed = parse(spec)
    return (endpoint_of(parsed) if parsed.provider in PROVIDERS else parsed), sampling


def _built(what: Endpoint | ModelSpec, sampling: Sampling) -> BaseChatModel:
    if isinstance(what, ModelSpec):
        return _from_entry_point(what, sampling)
    from agentflow.graph.models.endpoint import EndpointModel

    return EndpointModel.of(what if what.model else with_sole_model(what), sampling)


def _from_entry_point(spec: ModelSpec, sampling: Sampling) -> BaseChatModel:
    provider = installed().get(spec.provider)
    if provider is None:
        return initialised(spec, sampling)
    if spec.base_url and spec.model.partition(":")[0] not in PROVIDERS:
        raise misconfigured("bad_url", f"{spec.provider} has no URL; leave out @{spec.base_url}")
    name = f"{spec.model}@{spec.base_url}" if spec.base_url else spec.model
    try:
        model: BaseChatModel = provider.load()(name, sampling)
    except ModelError:
        raise
    except Exception as error:
        # The provider is a third-party package that reads the user's files, and may raise any exception.
        what = f"{spec.provider}:{spec.model}" if spec.model else spec.provider
        reason = f"{type(error).__name__}: {one_line(error, 200)}"
        raise misconfigured(
            "not_loaded",
            f"{one_line(what, 200)} cannot be loaded ({reason}); check its name or directory, and that what it needs "
            "is installed",
        ) from error
    return model
