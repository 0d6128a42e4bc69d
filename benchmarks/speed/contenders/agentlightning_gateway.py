"""Agent Lightning's server, which forwards the calls of a rollout and captures them in memory."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

import aiohttp

from benchmarks.speed.contenders.aiohttp_loop import loops
from benchmarks.speed.contenders.gateways import free_port, started
from benchmarks.speed.work import Rollout, Work

DISTRIBUTION = "agentlightning"


@asynccontextmanager
async def rollouts(work: Work) -> AsyncIterator[Rollout]:
    """Yield rollouts that are registered with the server."""
    address = f"http://127.0.0.1:{(port := free_port())}"
    command = [sys.executable, "-m", "agentlightning.server", "host=127.0.0.1", f"port={port}", "hydra.run.dir=."]
    command += ["default_proxy.model_name=none", "hydra.output_subdir=null", "hydra/job_logging=none"]
    async with started(command, f"{address}/healthz"), aiohttp.ClientSession(address, raise_for_status=True) as session:
        await session.post("/api/models", json=[{"model": "none", "endpoint": work.url("tools")}])
        names = [f"rollout-{number}" for number in range(work.rollouts + work.concurrent + 64)]
        await session.post("/api/rollouts", json=[{"input": {}, "rollout_id": name} for name in names])
        numbers = count()
        proxy = f"{address}/proxy/rollout/rollout-{{}}/attempt/0/mode/train/openai/v1"
        async with loops(work, lambda: proxy.format(next(numbers))) as rollout:
            yield rollout
