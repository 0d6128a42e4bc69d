"""Endpoint of the policy for code that calls a server without LangChain: the openai SDK, any other client or program.

In a rollout, each node has a URL of its own, `http://127.0.0.1:PORT/SECRET/research/agent/v1`. A request to it is a
model call of that node: the `Policy` answers in the node's context, so that ids, splicing, faults and trace are those
of a call through LangChain. A stream is one event with the whole reply. The trainer samples: temperature and the like
are accepted and have no effect.

The openai SDK needs no URL. In a node that learns, its model calls go to the node's URL, whenever its client was built
and whatever server it is for. Other code asks `policy_url()`.

Each process has one server, on a port of loopback and in a thread of its own, so that blocking clients can be answered.
"""

import asyncio
import os
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextvars import Context, copy_context
from functools import cache, wraps
from typing import Annotated, Any, ClassVar
from urllib.parse import quote

from langchain_core.messages import AIMessage, convert_to_messages, convert_to_openai_messages
from langchain_core.runnables.config import ensure_config
from pydantic import Field
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from agentflow.graph.context import Sampling
from agentflow.graph.loopback import LoopbackOnly
from agentflow.rl.micro import protocol
from agentflow.rl.micro.http import HUNG_UP, Refused, event, read, refuse, unless_gone
from agentflow.rl.policy.policy import (
    Policy,
    PolicyMisused,
    PromptTooLong,
    Serving,
    rollout_of_context,
    rollouts_under_way,
)
from agentflow.rl.policy.standing_in import learning_path

MOST_BYTES = 16 << 20
"""Maximum size of a request's body; a conversation of a million tokens has a fourth of it."""

MODEL_CALLS = ("/chat/completions", "/completions", "/responses")
"""Addresses of the openai SDK's model calls; the policy answers the first, and refuses the others."""


def policy_url() -> str | None:
    """Return the base URL at which the policy answers the calling node, for a client of OpenAI's protocol.

    It is valid until the rollout ends, also in programs that the node starts. None outside of training and in a node
    that does not learn, where `OpenAI(base_url=policy_url())` asks the client's own server.
    """
    served, callbacks = rollout_of_context(), ensure_config().get("callbacks")
    if served is None or (found := learning_path(served, callbacks)) is None:
        return None
    caller, path = found
    place = f"{served.secret}{caller.hex}/{'/'.join(quote(name, safe='') for name in path)}"
    served.captured.setdefault(place, copy_context())
    return f"http://127.0.0.1:{_port(os.getpid())}/{place}/v1"


@cache
def redirect_openai() -> None:
    """Patch the clients of the openai SDK in this process, once, so that nodes that learn ask the policy."""
    from openai import AsyncOpenAI, OpenAI

    for client in (OpenAI, AsyncOpenAI):
        client.request = _redirected(client.request)  # type: ignore[method-assign]


def _redirected(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def request(self: Any, cast_to: Any, options: Any, **kwargs: Any) -> Any:
        if options.url in MODEL_CALLS and (url := policy_url()):
            options = options.model_copy(update={"url": url + options.url})
        return method(self, cast_to, options, **kwargs)

    return request


class PolicyRequest(protocol.CompletionRequest):
    """The body of a request to the policy."""

    refused: ClassVar[protocol.Refusals] = {
        **protocol.CompletionRequest.refused,
        "n": (None, 1),
        "logprobs": (None, False),
        "return_token_ids": (None, False),
    }

    messages: Annotated[list[dict[str, Any]], Field(min_length=1)]
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    response_format: dict[str, Any] | None = None

    @property
    def options(self) -> dict[str, Any]:
        """Keyword arguments of the model call."""
        names = ("tools", "tool_choice", "parallel_tool_calls", "response_format")
        given = {name: getattr(self, name) for name in names}
        return {name: value for name, value in given.items() if value is not None and value != {"type": "text"}}

    async def answer(self) -> AIMessage:
        """Ask the policy, in the context of a node. Raises Refused, and as `Policy` does."""
        try:
            messages = convert_to_messages([{"content": "", **message} for message in self.messages])
        except (ValueError, TypeError, KeyError, AttributeError, NotImplementedError) as error:
            raise Refused(400, f"messages: {' '.join(str(error).split())}") from error
        limits = Sampling(max_tokens=self.most_tokens, stop=self.stops or None)
        return await Policy(sampling=limits).ainvoke(messages, **self.options)


def _place(request: Request) -> tuple[Serving, str]:
    """Return the rollout and the path of the node's URL that a request is for. Raises Refused."""
    place = request.scope["raw_path"].decode("ascii").removeprefix("/").rpartition("/v1/")[0]
    for served in rollouts_under_way():
        if place in served.captured:
            return served, place
    raise Refused(404, "no node of a rollout under way has this URL")


async def _chat(request: Request) -> Response:
    served, place = _place(request)
    try:
        wanted = await read(request, PolicyRequest, MOST_BYTES)
        context = served.captured[place].copy()
        message = await unless_gone(request, asyncio.create_task(wanted.answer(), context=context))
    except Exception as error:
        # The node gets a status as from a server, and its client's error; the rollout ends for the error itself.
        return _failed(served, place, error).response
    served.failed.pop(place, None)
    if message is None:
        return Response(status_code=HUNG_UP)
    if wanted.stream:
        return StreamingResponse(_stream(wanted, message), media_type="text/event-stream")
    body = protocol.head("chat.completion", wanted.model)
    choice = {"index": 0, "message": _openai_message(message), "finish_reason": _finish_reason(message)}
    return JSONResponse({**body, "choices": [choice], "usage": _usage(message)})


async def _other(request: Request) -> Response:
    served, place = _place(request)
    asked = "/" + request.scope["path"].rpartition("/v1/")[2]
    if asked == "/models":
        return JSONResponse({"object": "list", "data": [{"id": "policy", "object": "model", "owned_by": "agentflow"}]})
    return _failed(served, place, Refused(404, f"the policy answers /chat/completions, not {asked}")).response


def _failed(served: Serving, place: str, error: Exception) -> Refused:
    """Record why a call was not answered, and return the refusal of its request."""
    match error:
        case PolicyMisused():
            return Refused(400, str(error))
        case Refused():
            served.refuse(str(error))
            return error
    served.failed[place] = error
    if isinstance(error, PromptTooLong):
        return Refused(400, str(error), "context_length_exceeded")
    return Refused(500, str(error))


def _openai_message(message: AIMessage) -> dict[str, Any]:
    found: Any = convert_to_openai_messages(message)
    if reasoning := message.additional_kwargs.get("reasoning_content"):
        found["reasoning_content"] = reasoning
    return {**found, "content": found["content"] or (None if message.tool_calls else "")}


def _finish_reason(message: AIMessage) -> str:
    return "tool_calls" if message.tool_calls else str(message.response_metadata["finish_reason"])


def _usage(message: AIMessage) -> dict[str, int]:
    counted = message.usage_metadata
    assert counted
    return protocol.usage(counted["input_tokens"], counted["output_tokens"])


async def _stream(wanted: PolicyRequest, message: AIMessage) -> AsyncIterator[str]:
    """Yield a reply as server-sent events: all of it, and its end."""
    head, delta = protocol.head("chat.completion.chunk", wanted.model), _openai_message(message)
    if message.tool_calls:
        delta["tool_calls"] = [{"index": index, **call} for index, call in enumerate(delta["tool_calls"])]
    for part, reason in ((delta, None), ({}, _finish_reason(message))):
        yield event({**head, "choices": [{"index": 0, "delta": part, "finish_reason": reason}]})
    if wanted.wants_usage:
        yield event({**head, "choices": [], "usage": _usage(message)})
    yield "data: [DONE]\n\n"


app = Starlette(
    routes=[
        Route("/{place:path}/v1/chat/completions", _chat, methods=["POST"]),
        Route("/{place:path}/v1/{rest:path}", _other, methods=["GET", "POST"]),
    ],
    middleware=[Middleware(LoopbackOnly)],
    exception_handlers={Refused: refuse},
)


@cache
def _port(process: int) -> int:
    """Start the server of this process, and return its port."""
    import uvicorn

    listening = socket.create_server(("127.0.0.1", 0))
    # A client that a module keeps may be asked in another event loop, where a connection of the first is dead.
    closing: Any = {"headers": [("connection", "close")]}
    server = uvicorn.Server(
        uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", ws="none", **closing)
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="policy endpoint", daemon=True)
    Context().run(thread.start)  # in the context of no rollout
    port: int = listening.getsockname()[1]
    return port
