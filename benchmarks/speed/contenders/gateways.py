"""A peer's gateway, started beside the loop that goes through it. Its time and memory count: it is the peer's work."""

import asyncio
import socket
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import aiohttp

SECONDS = 60
"""To start in."""


def free_port() -> int:
    """A port of loopback that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@asynccontextmanager
async def started(command: Sequence[str], health: str) -> AsyncIterator[None]:
    """The gateway, from when its address `health` answers until the end of the block. Raises TimeoutError."""
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
