"""Threads that a node starts know the rollout that they are part of.

A new thread begins with an empty context (`contextvars`), so that a model call in it would belong to no rollout. While
a rollout is under way, `Thread.start` hands its context on, as Python 3.14 does with `-X thread_inherit_context`, and
so does `ThreadPoolExecutor.submit`: for what is submitted, not for the pool's threads, which other rollouts use too.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context, copy_context
from functools import cache
from typing import Any


@cache
def inherit_context(wanted: Callable[[], bool]) -> None:
    """From now on, a thread inherits the context of what starts it where `wanted` is true there."""
    start: Any = threading.Thread.start
    submit: Any = ThreadPoolExecutor.submit

    def started(self: threading.Thread) -> None:
        if wanted():
            context, run = copy_context(), self.run
            self.run = lambda: context.run(run)  # type: ignore[method-assign]
        start(self)

    def submitted(self: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if wanted():
            found: Future[Any] = Context().run(submit, self, copy_context().run, fn, *args, **kwargs)
        else:
            found = submit(self, fn, *args, **kwargs)
        return found

    threading.Thread.start = started  # type: ignore[method-assign]
    ThreadPoolExecutor.submit = submitted  # type: ignore[method-assign,assignment]
