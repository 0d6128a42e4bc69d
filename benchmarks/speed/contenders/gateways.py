"""A peer's gateway, started next to the loop that uses it. Its time and memory count as the peer's."""

import asyncio
import socket
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import aiohttp

SECONDS = 60
"""Timeout of the start, in seconds."""


def free_port() -> int:
    """Return a free port of the loopback interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@asynccontextmanager
async def started(command: Sequence[str], health: str) -> AsyncIterator[None]:
    """Run the gateway inside the block, once its address `health` answers. Raises TimeoutError."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: ASYNC220, S603
    try:
        async with asyncio.timeout(SECONDS), aiohttp.ClientSession() as session:
            while True:
                try:
                    async with session.get(health) as response:
                        if response.ok:
                            break
                except aiohttp.ClientConnectionError:
                    await asyncio.sleep(0.1)
        yield
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait)
