import asyncio

import pytest

from agentflow.tools.exits import exits_are_errors


async def leave() -> None:
    raise SystemExit(3)


async def test_a_task_that_ends_before_it_begins_leaves_no_warning() -> None:
    with exits_are_errors():
        task = asyncio.create_task(leave())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_after_the_block_an_exit_ends_the_process_again() -> None:
    async def main() -> None:
        with exits_are_errors():
            pass
        await asyncio.create_task(leave())

    with pytest.raises(SystemExit):
        asyncio.run(main())
