"""A policy served over aiohttp, as the trainer's rollout servers serve it: messages in, ids out."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from agentflow.nodes import analyst, executor, generator, planner, verifier
from agentflow.rl.chat import ChatRequest, Generate, TokenReply

_BEGINNINGS = {
    module.PROMPT.split("{")[0]: module.__name__.rpartition(".")[2]
    for module in (analyst, planner, executor, verifier, generator)
}


def module_of(system: str) -> str:
    """The module of AgentFlow whose instructions these are; none of another graph."""
    return next((name for beginning, name in _BEGINNINGS.items() if system.startswith(beginning)), "none")


@asynccontextmanager
async def served(url: str) -> AsyncIterator[Generate]:
    """What answers `Policy` from the server at `url`."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def generate(request: ChatRequest) -> TokenReply:
            body = {
                "model": module_of(request.messages[0]["content"]),
                "messages": list(request.messages),
                "logprobs": True,
                "return_token_ids": True,
            }
            async with session.post(f"{url}/chat/completions", json=body) as response:
                found = json.loads(await response.read())
            choice = found["choices"][0]
            return TokenReply(
                text=choice["message"]["content"],
                prompt_ids=found["prompt_token_ids"],
                token_ids=choice["token_ids"],
                logprobs=[token["logprob"] for token in choice["logprobs"]["content"]],
                finish_reason=choice["finish_reason"],
            )

        yield generate
