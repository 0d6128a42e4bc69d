"""OpenAI-compatible endpoint of the embedded models, with continuous batching: `agentflow serve`.

It serves clients of that protocol, and can stand in for a server such as vLLM. Routes: `/v1/chat/completions`
(with streaming, log-probabilities and token ids), `/v1/models` and `/health`. A request whose client has disconnected
frees its slot at the next token. Without a key, only local programs and pages are served. Prompts that cannot fit a
model are rejected before tokenisation, and tokenisation runs in a thread, so that no request blocks others.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from agentflow.graph.loopback import LoopbackOnly
from agentflow.rl.micro import protocol
from agentflow.rl.micro.chat_model import Checkpoint
from agentflow.rl.micro.declining import DecliningEngine
from agentflow.rl.micro.engine import Completion, ContextWindowExceeded, Engine
from agentflow.rl.micro.http import HUNG_UP, Refused, check_key, event, read, refuse, unless_gone
from agentflow.rl.micro.protocol import ChatCompletionRequest
from agentflow.rl.micro.tokenizer import MicroTokenizer
from agentflow.tools.untrusted_text import bounded_line

MOST_BYTES = 1 << 20
"""Maximum size of a request's body; a prompt that fills the model's 4,096 positions has less than a tenth of it."""

MOST_OPEN = 1024
"""Maximum number of completions that run or wait; requests for more are refused for the time being."""

Served = Mapping[str, Checkpoint]


def build_app(served: Served, key: str = "") -> Starlette:
    """Build the endpoint of the models in `served`, by name.

    With a `key`, clients must send it as their bearer token, and any host name is accepted; without one, they must use
    a loopback address.
    """
    server = _Server(served, key)
    routes = [
        Route("/v1/chat/completions", server.chat, methods=["POST"]),
        Route("/v1/models", server.models),
        Route("/health", server.health),
    ]
    return Starlette(
        routes=routes, middleware=[] if key else [Middleware(LoopbackOnly)], exception_handlers={Refused: refuse}
    )


class _Server:
    def __init__(self, served: Served, key: str) -> None:
        self.served, self.key = served, key
        self.replies: WeakSet[_Reply] = WeakSet()

    async def health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def models(self, request: Request) -> Response:
        check_key(request, self.key)
        found = [
            {
                "id": name,
                "object": "model",
                "created": 0,
                "owned_by": "agentflow",
                "max_model_len": served.engine.positions,
            }
            for name, served in self.served.items()
        ]
        return JSONResponse({"object": "list", "data": found})

    async def chat(self, request: Request) -> Response:
        check_key(request, self.key)
        wanted = await read(request, ChatCompletionRequest, MOST_BYTES)
        reply = await self._reply(wanted)
        if wanted.stream:
            return StreamingResponse(reply.stream(), media_type="text/event-stream")
        answer = await unless_gone(request, reply.whole())
        return JSONResponse(answer) if answer else Response(status_code=HUNG_UP)

    async def _reply(self, wanted: ChatCompletionRequest) -> "_Reply":
        if wanted.model not in self.served:
            named, names = bounded_line(wanted.model, 120), ", ".join(self.served)
            raise Refused(404, f"there is no model '{named}' here; there are {names}", "model_not_found")
        served = self.served[wanted.model]
        try:
            messages = [message.as_pair() for message in wanted.messages]
            served = served.addressed_by(messages[0][1])
            prompt_ids = await asyncio.to_thread(_encode, messages, served)
            if sum(reply.open for reply in self.replies) + wanted.n > MOST_OPEN:
                raise Refused(429, "too many replies are being written; try again later", "rate_limit_exceeded")
            reply = _Reply(wanted, served.tokenizer, prompt_ids)
            self.replies.add(reply)
            reply.start(served.engine)
        except ContextWindowExceeded as error:
            raise Refused(400, str(error), "context_length_exceeded") from error
        except ValueError as error:
            raise Refused(400, str(error)) from error
        return reply


@dataclass(eq=False)
class _Choice:
    """One of a request's completions, with the tokens received so far."""

    future: "Future[Completion]"
    ids: list[int] = field(default_factory=list)
    sent: int = 0
    """Number of characters sent to the client."""


@dataclass(eq=False)
class _Reply:
    """A reply in progress."""

    wanted: ChatCompletionRequest
    tokenizer: MicroTokenizer
    prompt_ids: list[int]
    choices: list[_Choice] = field(default_factory=list)
    events: "asyncio.Queue[tuple[int, int | None, float]]" = field(default_factory=asyncio.Queue)
    """(choice, token, log-probability) in the order in which they are drawn; token None ends the choice."""

    def start(self, engine: Engine | DecliningEngine) -> None:
        """Submit all choices to the engine. Raises ValueError."""
        wanted, loop = self.wanted, asyncio.get_running_loop()
        for index in range(wanted.n):

            def put(token: int | None, logprob: float, index: int = index) -> None:
                with suppress(RuntimeError):  # the server has stopped and closed its loop
                    loop.call_soon_threadsafe(self.events.put_nowait, (index, token, logprob))

            future = engine.submit(
                self.prompt_ids,
                temperature=wanted.temperature,
                top_p=wanted.top_p,
                max_tokens=wanted.most_tokens,
                stop=wanted.stops,
                seed=None if wanted.seed is None else wanted.seed + index,
                on_token=put if wanted.stream else None,
            )
            if wanted.stream:
                future.add_done_callback(lambda _, put=put: put(None, 0.0))  # type: ignore[misc]
            self.choices.append(_Choice(future))

    @property
    def open(self) -> int:
        """Number of choices that run or wait."""
        return sum(not choice.future.done() for choice in self.choices)

    def cancel(self) -> None:
        """Cancel all choices, which frees their slots."""
        for choice in self.choices:
            choice.future.cancel()

    async def whole(self) -> dict[str, Any]:
        """Return the body of a reply that is not streamed."""
        try:
            completions = [await asyncio.wrap_future(choice.future) for choice in self.choices]
        finally:
            self.cancel()
        body = protocol.head("chat.completion", self.wanted.model)
        body["choices"] = [self._whole_choice(index, found) for index, found in enumerate(completions)]
        body["usage"] = protocol.usage(len(self.prompt_ids), sum(len(found.token_ids) for found in completions))
        if self.wanted.return_token_ids:
            body["prompt_token_ids"] = self.prompt_ids
        return body

    def _whole_choice(self, index: int, found: Completion) -> dict[str, Any]:
        message = {"role": "assistant", "content": found.text, "refusal": None}
        return {
            "index": index,
            "message": message,
            "finish_reason": found.finish_reason,
            **self._details(found.token_ids, found.logprobs),
        }

    def _details(self, ids: Sequence[int], values: Sequence[float]) -> dict[str, Any]:
        details: dict[str, Any] = {
            "logprobs": protocol.logprobs(self.tokenizer, ids, values) if self.wanted.logprobs else None
        }
        if self.wanted.return_token_ids:
            details["token_ids"] = list(ids)
        return details

    async def stream(self) -> AsyncIterator[str]:
        """Yield the reply as server-sent events, one per token."""
        wanted, head = self.wanted, protocol.head("chat.completion.chunk", self.wanted.model)
        try:
            for index in range(wanted.n):
                first = {"index": index, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
                ids = {"prompt_token_ids": self.prompt_ids} if wanted.return_token_ids else {}
                yield event({**head, "choices": [first], **ids})
            running = wanted.n
            while running:
                index, token, logprob = await self.events.get()
                running -= token is None
                yield event({**head, "choices": [self._piece(index, token, logprob)]})
            if wanted.wants_usage:
                drawn = sum(len(choice.ids) for choice in self.choices)
                yield event({**head, "choices": [], "usage": protocol.usage(len(self.prompt_ids), drawn)})
            yield "data: [DONE]\n\n"
        finally:
            self.cancel()

    def _piece(self, index: int, token: int | None, logprob: float) -> dict[str, Any]:
        choice = self.choices[index]
        if token is None:
            found = choice.future.result()
            rest = found.text[choice.sent :]
            return {"index": index, "delta": {"content": rest}, "finish_reason": found.finish_reason}
        choice.ids.append(token)
        ready = settled(self.tokenizer.decode(choice.ids), self.wanted.stops)
        new, choice.sent = ready[choice.sent :], max(choice.sent, len(ready))
        details = self._details([token], [logprob])
        return {"index": index, "delta": {"content": new}, "finish_reason": None, **details}


def settled(text: str, stops: Sequence[str]) -> str:
    """Return the prefix of `text` that further tokens cannot change.

    It ends before a character that may be incomplete, and before a stop string or a possible beginning of one.
    """
    text = text.rstrip("\ufffd")
    cuts = [cut for cut in map(text.find, stops) if cut >= 0]
    text = text[: min(cuts, default=len(text))]
    held = max((_overlap(text, stop) for stop in stops), default=0)
    return text[: len(text) - held]


def _overlap(text: str, stop: str) -> int:
    """Return the length of the longest suffix of `text` that is a prefix of `stop`."""
    return next((n for n in range(min(len(text), len(stop)), 0, -1) if text.endswith(stop[:n])), 0)


def _encode(messages: Sequence[tuple[str, str]], served: Checkpoint) -> list[int]:
    """Return the prompt's ids. Raises ContextWindowExceeded, where possible before tokenisation."""
    longest, positions = served.tokenizer.longest_token, served.engine.positions
    if sum(2 + len(text) // longest for _, text in messages) >= positions:  # each message adds a start and an end token
        raise ContextWindowExceeded(f"the prompt is too long for the model's {positions} tokens")
    return served.tokenizer.encode_chat(messages)
