"""rLLM's gateway, which captures every call in SQLite, between the floor's loop and the server."""

import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from tempfile import mkdtemp

from benchmarks.speed.contenders.aiohttp_loop import loops
from benchmarks.speed.contenders.gateways import free_port, started
from benchmarks.speed.work import Rollout, Work

DISTRIBUTION = "rllm-model-gateway"


_folder = Path(mkdtemp(prefix="agentflow-speed-"))


@asynccontextmanager
async def rollouts(work: Work) -> AsyncIterator[Rollout]:
    """Yield rollouts, each in its own session."""
    address, numbers = f"http://127.0.0.1:{(port := free_port())}", count()
    command = [sys.executable, "-m", "rllm_model_gateway", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--worker", work.url("tools"), "--db-path", str(_folder / "traces.sqlite"), "--log-level", "error"]
    try:
        async with (
            started(command, f"{address}/health"),
            loops(work, lambda: f"{address}/sessions/rollout-{next(numbers)}/v1") as rollout,
        ):
            yield rollout
    finally:
        shutil.rmtree(_folder)


def stored_bytes() -> int:
    """Return the size of the database with its journal, in bytes."""
    return sum(path.stat().st_size for path in _folder.iterdir())
