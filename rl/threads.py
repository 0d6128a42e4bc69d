"""Context propagation to threads, so that model calls in a thread that a node starts belong to the node's rollout.

A new thread starts with an empty context (`contextvars`), so a model call in it would belong to no rollout. While a
rollout runs, `Thread.start` passes the current context on, as Python 3.14 does with `-X thread_inherit_context`.
`ThreadPoolExecutor.submit` passes it to the submitted function, but not to the pool's threads, which other rollouts use
too.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context, copy_context
from functools import cache
from typing import Any


@cache
def inherit_context(wanted: Callable[[], bool]) -> None:
    """Patch `threading` and `ThreadPoolExecutor` so that threads inherit the context of their starter.

    Only threads started where `wanted()` is true inherit it. The patch applies to the whole process.
    """
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
