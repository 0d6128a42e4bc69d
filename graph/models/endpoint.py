"""The chat model for every endpoint: LangChain's `ChatOpenAI`, with changes for speed.

- *Low cost per call.* The SDK and ChatOpenAI build types for every field of request and reply, and the latter uses a
  thread for it. This takes two thirds of a call's processor time, for which an evaluation with 256 concurrent questions
  has to wait. Here, a request for a complete reply is sent without the SDK (`connections`), and the reply is read as
  JSON. Parts for the caller and replies whose types the caller defines pass through the SDK, over the same connections.
- *A limit on silence.* Replies are streamed, so that a server that hangs is noticed, and a slow one is not cut off.
- *Requests with exactly the given settings.* ChatOpenAI renames `max_tokens` and drops the temperature of some models
  because of their name. Here, both happen only for OpenAI itself.
"""

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

import httpx
import openai
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.language_models.base import LangSmithParams, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_openai import ChatOpenAI
from langchain_openai.chat_models.base import _handle_openai_api_error, _handle_openai_bad_request
from pydantic import PrivateAttr
from yarl import URL

from agentflow.graph.context import Sampling
from agentflow.graph.models.connections import CUT, RETRIES, ROLLOUT_HOST, PooledClient, as_httpx, connections
from agentflow.graph.models.errors import StreamCutError, explain
from agentflow.graph.models.reply import thoughts
from agentflow.graph.models.spec import Endpoint, ModelError
from agentflow.graph.models.streamed import completion
from agentflow.tools.borders import unbordered

CONNECT = 15.0
"""Seconds to connect, which is slow where hundreds of calls begin at once."""
WHOLE_TIMES = 3
"""A reply that is not streamed may take so many times the limit on silence, since it is silent until it is complete."""

WHOLE = frozenset({"tools", "functions", "n", "logprobs"})
"""Fields of requests that are not streamed: servers parse streamed calls differently, and omit log-probabilities."""

_REASONING = re.compile(r"o\d|gpt-5(?!.*chat)")
"""OpenAI's models that refuse requests with a temperature."""

_log = logging.getLogger(__name__)


class EndpointModel(ChatOpenAI):
    """A model behind an OpenAI-compatible endpoint."""

    _endpoint: Endpoint = PrivateAttr()
    _headers: dict[str, str] = PrivateAttr()
    _unsupported_forms: set[str] = PrivateAttr(default_factory=set)
    _limits: httpx.Timeout = PrivateAttr()
    _whole_limits: httpx.Timeout = PrivateAttr()
    _streams: bool = PrivateAttr()

    @classmethod
    def of(cls, endpoint: Endpoint, sampling: Sampling) -> "EndpointModel":
        """Return the model at `endpoint`. Fields of `sampling` that are None are absent from its requests."""
        whole = httpx.Timeout(WHOLE_TIMES * endpoint.silence or None, connect=CONNECT)
        model = cls(
            model=endpoint.model,
            base_url=endpoint.base_url,
            api_key=endpoint.key,
            top_p=sampling.top_p,
            max_tokens=sampling.max_tokens,
            stop=list(sampling.stop) if sampling.stop else None,
            seed=sampling.seed,
            timeout=whole,
            max_retries=RETRIES,
            stream_usage=True,
            stream_chunk_timeout=None,  # `_limits` has it
            use_responses_api=False,  # it supports neither stop nor seed
            http_socket_options=(),  # otherwise the synchronous client ignores the environment's proxies
            http_async_client=_client(),
        )
        model._endpoint = endpoint
        model._limits, model._whole_limits = httpx.Timeout(endpoint.silence or None, connect=CONNECT), whole
        model._headers = _headers(model.root_async_client)
        model._streams = URL(endpoint.base_url).host != ROLLOUT_HOST  # a training has no time to spare
        if endpoint.provider != "vllm":  # the others ignore its field, at the price of a whole reply
            model._unsupported_forms.add("structured_outputs")
        model.temperature = _temperature(endpoint, sampling)  # set late: the constructor drops it for names like gpt-5
        return model

    @property
    def unsupported_forms(self) -> set[str]:
        """Return the ways to request a reply's form that the server refused or ignored (`structured`)."""
        return self._unsupported_forms

    async def explain(self, error: Exception) -> ModelError:
        """Return a ModelError for `error`, which a call to this model raised."""
        return await asyncio.to_thread(explain, self._endpoint, error)

    def _get_ls_params(self, *args: Any, **kwargs: Any) -> LangSmithParams:
        """Return the parameters for traces, with the actual provider."""
        return {**super()._get_ls_params(*args, **kwargs), "ls_provider": self._endpoint.provider}

    def _get_request_payload(
        self, input_: LanguageModelInput, *, stop: list[str] | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        payload = super()._get_request_payload(input_, stop=stop, **kwargs)
        if self._endpoint.provider == "vllm":
            for message, sent in zip(self._convert_input(input_).to_messages(), payload["messages"], strict=False):
                if isinstance(message, AIMessage) and (thought := thoughts(message)):
                    sent["reasoning_content"] = thought  # for its chat template; ChatOpenAI drops it
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
            result = self._create_chat_result(reply := await self._completion(payload | extra))
        except openai.BadRequestError as error:
            _handle_openai_bad_request(error)  # raises
            raise
        except openai.APIError as error:
            _handle_openai_api_error(error)  # may raise
            raise
        for generation, choice in zip(result.generations, reply["choices"], strict=True):
            _mend(generation.message, choice["message"])
        return result

    async def _completion(self, body: dict[str, Any]) -> Any:
        """Return the JSON of the reply, or its text if it is not JSON, which ChatOpenAI refuses with a message."""
        url = f"{self._endpoint.base_url}/chat/completions"
        streams = self._streams and not WHOLE & body.keys()
        asked = {**body, "stream": True, "stream_options": {"include_usage": True}} if streams else body
        limits = self._limits if streams else self._whole_limits
        response = await connections().post(url, self._headers, json.dumps(asked).encode(), limits)
        if not 200 <= response.status < 300:
            refused: Any = await as_httpx(response, httpx.Request("POST", url))
            if streams and _refuses_streams(refused):
                self._streams = False
                return await self._completion(body)
            raise self.root_async_client._make_status_error_from_response(refused)
        with suppress(ValueError):
            return completion(await response.read())
        return (await response.read()).decode(errors="replace")

    def _convert_chunk_to_generation_chunk(
        self, chunk: dict[str, Any], default_chunk_class: type, base_generation_info: dict[str, Any] | None
    ) -> ChatGenerationChunk | None:
        found = super()._convert_chunk_to_generation_chunk(chunk, default_chunk_class, base_generation_info)
        if found and (choices := chunk.get("choices")):
            _mend(found.message, choices[0]["delta"])
        if found and CUT in chunk:
            found.generation_info = {CUT: True}
        return found

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        started = finished = False
        try:
            async for chunk in super()._astream(*args, **kwargs, timeout=self._limits):
                info = chunk.generation_info or {}
                finished = finished or bool(info.get("finish_reason"))
                if CUT not in info:
                    started = True
                    yield chunk
                elif started and not finished:
                    raise StreamCutError("the stream ended before the reply did")
        except openai.APIStatusError as error:
            if not _refuses_streams(error.response):
                raise
        if not started:  # the server does not stream: its whole reply, or the error that stands in its place
            self._streams = False
            generation = (await self._agenerate(*args, **kwargs, stream=False)).generations[0]
            whole = AIMessageChunk(**generation.message.model_dump(exclude={"type"}))
            yield ChatGenerationChunk(message=whole, generation_info=generation.generation_info)


def _refuses_streams(response: Any) -> bool:
    """Return whether a server does not stream, as OpenAI for some organizations, or not with `stream_options`."""
    return response.status_code in (400, 422) and bool(re.search(r"\bstream", response.text))


def _mend(message: BaseMessage, sent: Mapping[str, Any]) -> None:
    """Keep what ChatOpenAI drops of a message, or of a part of one, and replace half a pair of surrogates."""
    kept = {"reasoning_content": sent.get("reasoning_content") or sent.get("reasoning"), "refusal": sent.get("refusal")}
    message.additional_kwargs.update({name: value for name, value in kept.items() if value})
    if isinstance(message.content, str):
        message.content = message.content.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _without_borders(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message without delimiters that a server could interpret as special tokens. Replies stay unchanged."""
    content = message.get("content")
    if message["role"] == "assistant" or not isinstance(content, str | list):
        return message
    if isinstance(content, str):
        return {**message, "content": unbordered(content)}
    blocks = [{**block, "text": unbordered(block["text"])} if "text" in block else block for block in content]
    return {**message, "content": blocks}


def _headers(client: openai.AsyncOpenAI) -> dict[str, str]:
    """Return the headers that the SDK would send: the key, OpenAI's organization and project, the program."""
    headers = {**client.default_headers, **client.auth_headers}
    return {name.lower(): value for name, value in headers.items() if isinstance(value, str)}


def _temperature(endpoint: Endpoint, sampling: Sampling) -> float | None:
    """Return the temperature to request. The default of 0 is left out for models that refuse a temperature."""
    if sampling.temperature == 0 and endpoint.provider == "openai" and _REASONING.match(endpoint.model):
        _log.warning("%s takes no temperature: 0 is left out", endpoint)
        return None
    return sampling.temperature


@lru_cache(maxsize=1)
def _client() -> PooledClient:
    return PooledClient()
