"""A loop over the openai SDK."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from openai import AsyncOpenAI

from benchmarks.speed.work import QUESTION, TOOL, Rollout, Work

DISTRIBUTION = "openai"


@asynccontextmanager
async def rollouts(work: Work) -> AsyncIterator[Rollout]:
    """Yield rollouts over one client."""
    tools: Any = [TOOL]
    async with AsyncOpenAI(base_url=work.url("tools"), api_key="none") as client:

        async def rollout() -> str:
            messages: list[Any] = [{"role": "user", "content": QUESTION}]
            while True:
                response = await client.chat.completions.create(model="none", messages=messages, tools=tools)
                message = response.choices[0].message
                if not message.tool_calls:
                    return message.content or ""
                messages.append(message.model_dump(exclude_none=True))
                for call in message.tool_calls:
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": work.result})

        yield rollout
