"""The chat model for every endpoint: LangChain's `ChatOpenAI`, with changes for reliability and speed.

- *One connection pool per event loop.* A model is cached and used from several loops: `graph.ainvoke` runs on the
  caller's loop, `graph.invoke` on a background one, a test on a new one each time. A connection made on one loop fails
  on another, so the HTTP client keeps one pool per loop and closes it when the loop shuts down.
- *Retries only of temporary failures.* The SDK retries server errors and lost connections, twice each. It must not
  retry a refused connection, a timeout or an empty account. Rate limits are handled here (`pace`), for all requests
  together. If a server names no time to wait, the SDK retries.
- *Low cost per call.* The SDK and ChatOpenAI build types for every field of request and reply, and the latter uses a
  thread for it. This takes two thirds of a call's processor time, for which an evaluation with 256 concurrent questions
  has to wait. Here, a complete reply is read as JSON; streams are handled as usual.
- *Requests with exactly the given settings.* ChatOpenAI renames `max_tokens` and drops the temperature of some models
  because of their name. Here, both happen only for OpenAI itself.
"""

import asyncio
import json
import logging
import os
import re
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from functools import lru_cache
from typing import Any

import httpx
import openai
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.language_models.base import LangSmithParams
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_openai import ChatOpenAI
from langchain_openai.chat_models.base import _handle_openai_api_error, _handle_openai_bad_request
from pydantic import PrivateAttr

from agentflow.graph.context import Sampling
from agentflow.graph.models.errors import StreamCutError, explain, out_of_credit
from agentflow.graph.models.pace import TRIES, Pace, retry_after
from agentflow.graph.models.spec import Endpoint, ModelError
from agentflow.tools.borders import unbordered
from agentflow.tools.web.hosts import tls

RETRIES = 2
"""Further attempts for a request that may succeed later."""

TIMEOUT = httpx.Timeout(300.0, connect=5.0)
"""Seconds to connect, and between two chunks of a reply. `Context.max_seconds` bounds the whole run."""

_REASONING = re.compile(r"o\d|gpt-5(?!.*chat)")
"""OpenAI's models that refuse requests with a temperature."""

ROLLOUT_HOST = "rollout"
"""Host of specs such as `vllm:base@http://rollout/v1`: the server that a training samples from. Its address, which
differs from start to start, is in the environment (`ROLLOUT_ADDRESS`) and not in the model, by whose settings recorded
responses are found again."""

ROLLOUT_ADDRESS = "AGENTFLOW_ROLLOUT_ADDRESS"
"""Environment variable that a training sets in its workers: host:port."""

_log = logging.getLogger(__name__)

_Pool = tuple[httpx.AsyncClient, AsyncGenerator[None, None]]


class LoopClient(httpx.AsyncClient):
    """An HTTP client with one connection pool per event loop, which also restricts the SDK's retries."""

    def __init__(self) -> None:
        super().__init__(verify=tls())
        self._pools: dict[asyncio.AbstractEventLoop, _Pool] = {}
        self._lock = threading.Lock()
        self._pace = Pace()

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        """Send on the running loop's pool. Raises errors that the SDK does not retry where a retry cannot help."""
        server = request.url.netloc.decode()
        for _ in range(TRIES):
            await self._pace.keep(server)
            response = await self._send_once(request, **options)
            if response.status_code != 429:
                return response
            if out_of_credit((await response.aread()).decode(errors="replace")):
                break
            seconds = retry_after(response.headers)
            if seconds is None:
                return response  # the SDK retries
            if not self._pace.refused(server, seconds):
                break
        response.headers["x-should-retry"] = "false"
        return response

    async def _send_once(self, request: httpx.Request, **options: Any) -> httpx.Response:
        client = await self._client()
        if request.url.host == ROLLOUT_HOST and (address := os.environ.get(ROLLOUT_ADDRESS)):
            request.url = request.url.copy_with(netloc=address.encode())
        try:
            return await client.send(request, **options)
        except httpx.TimeoutException as error:
            raise openai.APITimeoutError(request=request) from error  # type: ignore[arg-type]
        except httpx.ConnectError as error:
            raise openai.APIConnectionError(request=request) from error  # type: ignore[arg-type]

    async def _client(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        with self._lock:
            if loop in self._pools:
                return self._pools[loop][0]
            for closed in [known for known in self._pools if known.is_closed()]:
                del self._pools[closed]
            client = httpx.AsyncClient(verify=tls())
            closing = _close_with_loop(client)
            self._pools[loop] = client, closing
        await anext(closing)
        return client


async def _close_with_loop(client: httpx.AsyncClient) -> AsyncGenerator[None, None]:
    """Close `client` when the loop that starts this generator shuts down, since a loop closes its async generators
    last.
    """
    try:
        yield
    finally:
        await client.aclose()


class EndpointModel(ChatOpenAI):
    """A model behind an OpenAI-compatible endpoint."""

    _endpoint: Endpoint = PrivateAttr()
    _unsupported_forms: set[str] = PrivateAttr(default_factory=set)

    @classmethod
    def of(cls, endpoint: Endpoint, sampling: Sampling) -> "EndpointModel":
        """Return the model at `endpoint`. Fields of `sampling` that are None are absent from its requests."""
        model = cls(
            model=endpoint.model,
            base_url=endpoint.base_url,
            api_key=endpoint.key,
            top_p=sampling.top_p,
            max_tokens=sampling.max_tokens,
            stop=list(sampling.stop) if sampling.stop else None,
            seed=sampling.seed,
            timeout=TIMEOUT,
            max_retries=RETRIES,
            stream_usage=True,
            stream_chunk_timeout=None,  # TIMEOUT already sets it
            use_responses_api=False,  # it supports neither stop nor seed
            http_socket_options=(),  # otherwise the synchronous client ignores the environment's proxies
            http_async_client=_loop_client(),
        )
        model._endpoint = endpoint
        model.temperature = _temperature(endpoint, sampling)  # set late: the constructor drops it for names like gpt-5
        return model

    @property
    def unsupported_forms(self) -> set[str] | None:
        """Return the ways to request a reply's form that the server refused or ignored (`structured`)."""
        return self._unsupported_forms

    async def explain(self, error: Exception) -> ModelError:
        """Return a ModelError for `error`, which a call to this model raised."""
        return await asyncio.to_thread(explain, self._endpoint, error)

    def _get_ls_params(self, *args: Any, **kwargs: Any) -> LangSmithParams:
        """Return the parameters for traces, with the actual provider."""
        return {**super()._get_ls_params(*args, **kwargs), "ls_provider": self._endpoint.provider}

    def _get_request_payload(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        payload = super()._get_request_payload(*args, **kwargs)
        if self._endpoint.provider != "openai" and "max_completion_tokens" in payload:
            # Every compatible server knows this name; OpenAI's newer models know only the other one.
            payload["max_tokens"] = payload.pop("max_completion_tokens")
        if self._endpoint.provider != "openai":  # its service does not interpret special tokens in users' texts
            payload["messages"] = [_without_borders(message) for message in payload["messages"]]
        return payload

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        payload = self._get_request_payload(messages, stop=stop, **kwargs)
        if "response_format" in payload:  # the caller defines the reply's types
            return await super()._agenerate(messages, stop, run_manager, **kwargs)
        extra = payload.pop("extra_body", {})
        try:
            found = await self.root_async_client.post("/chat/completions", cast_to=httpx.Response, body=payload | extra)
        except openai.BadRequestError as error:
            _handle_openai_bad_request(error)  # raises
            raise
        except openai.APIError as error:
            _handle_openai_api_error(error)  # may raise
            raise
        return self._create_chat_result(_json(found))

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        started = finished = False
        async for chunk in super()._astream(*args, **kwargs):
            started = True
            finished = finished or bool((chunk.generation_info or {}).get("finish_reason"))
            yield chunk
        if started and not finished:
            raise StreamCutError("the stream ended before the reply did")


def _without_borders(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message without delimiters that a server could interpret as special tokens. Replies stay unchanged."""
    content = message.get("content")
    if message["role"] == "assistant" or not isinstance(content, str | list):
        return message
    if isinstance(content, str):
        return {**message, "content": unbordered(content)}
    blocks = [{**block, "text": unbordered(block["text"])} if "text" in block else block for block in content]
    return {**message, "content": blocks}


def _json(response: httpx.Response) -> Any:
    """Return the parsed body, or its text if it is not JSON, which ChatOpenAI refuses with a message."""
    try:
        return json.loads(response.content)
    except ValueError:
        return response.text


def _temperature(endpoint: Endpoint, sampling: Sampling) -> float | None:
    """Return the temperature to request. The default of 0 is left out for models that refuse a temperature."""
    if sampling.temperature == 0 and endpoint.provider == "openai" and _REASONING.match(endpoint.model):
        _log.warning("%s takes no temperature: 0 is left out", endpoint)
        return None
    return sampling.temperature


@lru_cache(maxsize=1)
def _loop_client() -> LoopClient:
    return LoopClient()
