"""Checks of a server of models: its context length, log-probabilities, token ids and structured output."""

import asyncio
import json
import re
from typing import Any

import httpx
from langchain_core.messages import HumanMessage

from agentflow.checks.check import Check
from agentflow.graph.context import Context
from agentflow.graph.models.context_length import fitting
from agentflow.graph.models.loading import aload_model, reply_of
from agentflow.graph.models.spec import Endpoint, ModelError
from agentflow.graph.models.structured import ReplyForm

TIMEOUT = 60.0
"""Seconds for a request."""

TEMPERATURES = (0.3, 1.0)
SAMPLES = 16
"""Number of first tokens that are sampled at each temperature."""

NOISE = 0.02
"""Difference of log-probabilities up to which two are the same; batches change those of bfloat16 by about 0.01."""


def _is_probe(text: str) -> bool:
    try:
        return re.fullmatch(r"zebra-\d\d", text.strip()) is not None or set(json.loads(text)) == {"zebra"}
    except (ValueError, TypeError):
        return False


PROBE = ReplyForm(
    "probe",
    {
        "type": "object",
        "properties": {"zebra": {"type": "boolean"}},
        "required": ["zebra"],
        "additionalProperties": False,
    },
    _is_probe,
    "zebra-[0-9][0-9]",
)
"""A form that no model writes by itself."""


def context_length(length: int | None, prompt: int, context: Context) -> Check:
    """Compare the server's context of `length` tokens with the largest request, with a first prompt of `prompt`."""
    reply = context.sampling_of("planner").max_tokens or 0
    needed = context.memory_tokens + reply + prompt
    parts = f"results {context.memory_tokens:,} + reply {reply:,} + first prompt {prompt:,} = {needed:,} tokens"
    if length is None:
        return "context length", "-", f"the server does not state it; it must hold {parts}"
    if length >= needed:
        return "context length", "ok", f"{length:,} tokens hold {parts}"
    return "context length", "no", f"{length:,} tokens, but {parts}; {fitting(length)}"


async def capabilities(endpoint: Endpoint, context: Context) -> list[Check]:
    """Check log-probabilities, token ids and structured output by requesting each."""
    samples = [await asyncio.to_thread(_sampled, endpoint, temperature) for temperature in TEMPERATURES]
    return [_logprobs(*samples), _token_ids(samples[0]), await _structured(context)]


def _sampled(endpoint: Endpoint, temperature: float) -> dict[str, Any]:
    """Return the reply to a request for first tokens with log-probabilities and ids; empty if it is refused."""
    body = {
        "model": endpoint.model,
        "messages": [{"role": "user", "content": "Write one word."}],
        "max_tokens": 1,
        "n": SAMPLES,
        "temperature": temperature,
        "logprobs": True,
    }
    for ids in ({"return_token_ids": True}, {}):
        try:
            headers = {"Authorization": f"Bearer {endpoint.key}"}
            url = f"{endpoint.base_url}/chat/completions"
            found = httpx.post(url, json=body | ids, headers=headers, timeout=TIMEOUT).raise_for_status().json()
        except (httpx.HTTPError, ValueError):
            continue
        return found if isinstance(found, dict) else {}
    return {}


def _first_logprobs(reply: dict[str, Any]) -> dict[str, float]:
    """Return the log-probability of each token that was sampled."""
    try:
        first = [choice["logprobs"]["content"][0] for choice in reply["choices"]]
        return {str(token["token"]): float(token["logprob"]) for token in first}
    except (KeyError, IndexError, TypeError, ValueError):
        return {}


def _logprobs(cold: dict[str, Any], warm: dict[str, Any]) -> Check:
    name, at_cold, at_warm = "log-probabilities", _first_logprobs(cold), _first_logprobs(warm)
    if not at_cold or not at_warm:
        return name, "-", "the server returns none, which only training needs"
    shared = [(at_cold[token], at_warm[token]) for token in at_cold.keys() & at_warm.keys()]
    if any(abs(one - other) > NOISE for one, other in shared):
        return name, "ok", "those of the sampling distribution: they differ between temperatures 0.3 and 1.0"
    if any(min(pair) < -2 * NOISE for pair in shared):
        raw = "raw: the same at temperatures 0.3 and 1.0"
        return name, "-", f"{raw}; to train on replies, serve with --logprobs-mode processed_logprobs"
    return name, "-", "too certain a model to tell those of the sampling distribution from raw ones"


def _token_ids(reply: dict[str, Any]) -> Check:
    choices = reply.get("choices") or [{}]
    if reply.get("prompt_token_ids") and choices[0].get("token_ids"):
        return "token ids", "ok", "returned for prompt and reply, as training needs"
    return "token ids", "-", "not returned; to train on replies, serve with vLLM, which takes return_token_ids"


async def _structured(context: Context) -> Check:
    """Check each way to request a form by a form that no model writes by itself."""
    model, supported = await aload_model(context.model_of("planner"), context.sampling_of("planner")), []
    for way, fields in PROBE.requests():
        try:
            async with asyncio.timeout(TIMEOUT):
                reply = await reply_of(model, [HumanMessage("Say hello.")], extra_body=fields)
        except (ModelError, TimeoutError):
            continue
        if PROBE.readable(str(reply.text)):
            supported.append(way)
    if supported:
        return "structured output", "ok", f"enforced by {' and '.join(supported)}"
    return "structured output", "-", "not enforced; for a weak model, use a server that does, such as vLLM"
