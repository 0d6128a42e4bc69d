"""The floor: a loop over aiohttp that keeps the messages, without a framework."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from benchmarks.speed.work import QUESTION, Rollout, Work, tool_schemas

DISTRIBUTION = "aiohttp"


@asynccontextmanager
async def rollouts(work: Work) -> AsyncIterator[Rollout]:
    """Yield rollouts that call the server directly."""
    async with loops(work, lambda: work.url("tools")) as rollout:
        yield rollout


@asynccontextmanager
async def loops(work: Work, url: Callable[[], str], **fields: Any) -> AsyncIterator[Rollout]:
    """Return rollouts, each at the address that `url` returns, with `fields` in every request."""
    tools = tool_schemas(work)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def rollout() -> str:
            to, messages = f"{url()}/chat/completions", [{"role": "user", "content": QUESTION}]
            while True:
                body = {"model": "none", "messages": messages, "tools": tools, **fields}
                async with session.post(to, json=body) as response:
                    response.raise_for_status()
                    message = json.loads(await response.read())["choices"][0]["message"]
                if not message.get("tool_calls"):
                    return str(message["content"])
                messages.append(message)
                for call in message["tool_calls"]:
                    messages.append({"role": "tool", "tool_call_id": call["id"], "content": work.result})

        yield rollout
