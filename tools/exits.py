"""`exit()` in a tool or a node is an error there, and does not end the process with all that runs in it.

asyncio raises SystemExit out of its loop as soon as it ends a task, whoever awaits that task and could handle it. So it
is replaced within each task that a run starts.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any
from weakref import WeakSet

_replaced: ContextVar[bool] = ContextVar("agentflow exits are errors", default=False)
_prepared: WeakSet[asyncio.AbstractEventLoop] = WeakSet()


@contextmanager
def exits_are_errors() -> Iterator[None]:
    """Raise RuntimeError in the place of SystemExit in the block, and in all tasks that are started in it."""
    loop = asyncio.get_running_loop()
    if loop not in _prepared:
        _prepared.add(loop)
        loop.set_task_factory(partial(_task, loop.get_task_factory()))
    token = _replaced.set(True)
    try:
        with _as_error():
            yield
    finally:
        _replaced.reset(token)


@contextmanager
def _as_error() -> Iterator[None]:
    try:
        yield
    except SystemExit as error:
        raise RuntimeError(f"exit({error.code!r}) was called").with_traceback(error.__traceback__) from None


def _task(make: Callable[..., Any] | None, loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> Any:
    async def without_exit() -> Any:
        with _as_error():
            return await work

    whole = without_exit() if (replaced := _replaced.get()) else work
    task = make(loop, whole, **options) if make else asyncio.Task(whole, loop=loop, **options)
    if replaced:
        task.add_done_callback(lambda _: work.close())  # of a task that never began, Python would warn
    return task
