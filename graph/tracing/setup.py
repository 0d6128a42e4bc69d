"""Configuration of tracing: `with tracing("otel"): ...`, `--tracing otel`, or AGENTFLOW_TRACING=otel for a server.

Tracing applies to the whole process, in every thread and event loop, and to any graph or chain that LangChain runs.
"""

import atexit
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache

from agentflow.graph.tracing.errors import TracingError
from agentflow.tools.redaction import cut
from agentflow.version import pip_install

__all__ = ["TracingError", "tracing", "tracing_from_environment"]

VARIABLE = "AGENTFLOW_TRACING"
CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""OpenTelemetry's variable that puts prompts and answers into spans."""

HOW = "write langsmith[:PROJECT], otel[:http://HOST:4318], otel:FILE.jsonl, or one of each with a comma"


@contextmanager
def tracing(to: str, *, content: bool | None = None) -> Iterator[None]:
    """Trace all runs of this process inside the block.

    Args:
        to: `otel`, `otel:http://HOST:4318`, `otel:FILE.jsonl`, `langsmith` or `langsmith:PROJECT`, or one of each with
            a comma.
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


@lru_cache(maxsize=1)
def tracing_from_environment() -> None:
    """Turn on the tracing of AGENTFLOW_TRACING, once, until the process ends. Raises TracingError."""
    if to := os.environ.get(VARIABLE, "").strip():
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
                    f"otel needs OpenInference; install it with: {pip_install('otel')}",
                    code="missing_package",
                ) from error
            stack.enter_context(otel_tracing(rest, content=content))
        case "langsmith":
            from agentflow.graph.tracing.langsmith import langsmith_tracing

            stack.enter_context(langsmith_tracing(rest))
        case _:
            raise TracingError(f"there is no tracing '{cut(name, 40)}'; {HOW}", code="unknown_target")
