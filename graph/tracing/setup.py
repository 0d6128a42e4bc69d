"""Configuration of tracing: `with tracing("otel"): ...`, `--tracing otel`, or AGENTFLOW_TRACING=otel for a server.

Tracing applies to the whole process, in every thread and event loop, and to any graph or chain that LangChain runs.
LangChain asks a hook for handlers before each run. The hook is set once, and has no handler while tracing is off.
"""

import atexit
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import lru_cache

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.tracers.context import register_configure_hook

from agentflow.graph.tracing.errors import TracingError
from agentflow.graph.tracing.log import LogSink, written_to
from agentflow.graph.tracing.observer import Observer
from agentflow.graph.tracing.operation import Sink
from agentflow.tools.redaction import cut
from agentflow.version import pip_install

__all__ = ["TracingError", "tracing", "tracing_from_environment"]

VARIABLE = "AGENTFLOW_TRACING"
CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""OpenTelemetry's variable that puts prompts and answers into spans."""

HOW = "write langsmith[:PROJECT], otel[:http://HOST:4318] or log[:FILE], or several with commas"


@contextmanager
def tracing(to: str, *, content: bool | None = None) -> Iterator[None]:
    """Trace all runs of this process inside the block.

    Args:
        to: `otel`, `otel:http://HOST:4318`, `langsmith`, `langsmith:PROJECT`, `log` (the logger `agentflow.events`),
            `log:FILE`, `log:-` (stderr), or several with commas.
        content: Whether spans contain prompts, answers, arguments and results. None: the value of the variable
            OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT, by default False.

    Raises:
        TracingError: `to` is wrong, or a key or an installed package is missing.
    """
    if content is None:
        content = os.environ.get(CONTENT_VARIABLE, "").strip().lower() in ("true", "1")
    targets = [target.strip() for target in to.split(",") if target.strip()]
    if not targets:
        raise TracingError(f"tracing needs a target; {HOW}", code="no_target")
    with ExitStack() as stack:
        for target in targets:
            name, _, rest = target.partition(":")
            _open(stack, name.lower(), rest, content=content)
        yield


def tracing_from_environment() -> None:
    """Turn on the tracing of AGENTFLOW_TRACING until the process ends. Raises TracingError."""
    if to := os.environ.get(VARIABLE, "").strip():
        _for_process(to)


@lru_cache(maxsize=1)
def _for_process(to: str) -> None:
    stack = ExitStack()
    stack.enter_context(tracing(to))
    atexit.register(stack.close)


def _open(stack: ExitStack, name: str, rest: str, *, content: bool) -> None:
    match name:
        case "otel":
            try:
                from agentflow.graph.tracing.otlp import otel_tracing
            except ModuleNotFoundError as error:
                raise TracingError(
                    f"otel needs OpenTelemetry; install it with: {pip_install('otel')}",
                    code="missing_package",
                ) from error
            stack.enter_context(_observed_by(stack.enter_context(otel_tracing(rest, content=content))))
        case "langsmith":
            from agentflow.graph.tracing.langsmith import langsmith_tracing

            stack.enter_context(langsmith_tracing(rest))
        case "log":
            if rest:
                try:
                    stack.enter_context(written_to(rest))
                except OSError as error:
                    raise TracingError(
                        f"cannot write to {rest} ({error.strerror}); choose another file", code="unwritable"
                    ) from error
            stack.enter_context(_observed_by(LogSink()))
        case _:
            raise TracingError(f"there is no tracing '{cut(name, 40)}'; {HOW}", code="unknown_target")


@contextmanager
def _observed_by(sink: Sink) -> Iterator[None]:
    observer = _observer()
    observer.sinks = (*observer.sinks, sink)
    try:
        yield
    finally:
        observer.sinks = tuple(one for one in observer.sinks if one is not sink)


@lru_cache(maxsize=1)
def _observer() -> Observer:
    """Return the observer of this process, which is registered with LangChain at first use."""
    observer = Observer()
    hook: ContextVar[BaseCallbackHandler | None] = ContextVar("agentflow_observer", default=observer)
    register_configure_hook(hook, inheritable=True)
    return observer
