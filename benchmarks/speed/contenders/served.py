"""A policy served over aiohttp like the trainer's rollout servers: messages in, ids out."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from langchain_core.messages.tool import tool_call

from agentflow.nodes import analyst, executor, generator, planner, verifier
from agentflow.rl.chat import ChatRequest, Generate, TokenReply

_BEGINNINGS = {
    module.PROMPT.split("{")[0]: module.__name__.rpartition(".")[2]
    for module in (analyst, planner, executor, verifier, generator)
}


def module_of(system: str) -> str:
    """Return the module of AgentFlow with these instructions, or "none" for another graph."""
    return next((name for beginning, name in _BEGINNINGS.items() if system.startswith(beginning)), "none")


@asynccontextmanager
async def served(url: str) -> AsyncIterator[Generate]:
    """Yield the function with which `Policy` calls the server at `url`."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def generate(request: ChatRequest) -> TokenReply:
            body = {
                "model": module_of(request.messages[0]["content"]),
                "messages": list(request.messages),
                "logprobs": True,
                "return_token_ids": True,
                **({"tools": list(request.tools)} if request.tools else {}),
            }
            async with session.post(f"{url}/chat/completions", json=body) as response:
                found = json.loads(await response.read())
            choice = found["choices"][0]
            message = choice["message"]
            return TokenReply(
                text=message["content"] or "",
                prompt_ids=found["prompt_token_ids"],
                token_ids=choice["token_ids"],
                logprobs=[token["logprob"] for token in choice["logprobs"]["content"]],
                finish_reason=choice["finish_reason"],
                tool_calls=[
                    tool_call(
                        name=call["function"]["name"], args=json.loads(call["function"]["arguments"]), id=call["id"]
                    )
                    for call in message.get("tool_calls", ())
                ],
            )

        yield generate
