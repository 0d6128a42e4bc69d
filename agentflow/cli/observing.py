"""What a command is watched by while it runs: traces and a log, as its options ask."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from agentflow.cli.group import MISUSED, fail

if TYPE_CHECKING:
    from agentflow.evals.cost import Price


@contextmanager
def observing(tracing: str | None, log: str | None, *, content: bool = False) -> Iterator[None]:
    """Traces and logs whatever runs meanwhile. Ends the command where they cannot be had."""
    targets = [*([tracing] if tracing else []), *([f"log:{log}"] if log else [])]
    if not targets:
        yield
        return
    from agentflow.graph.tracing import setup

    with ExitStack() as stack:
        try:
            for target in targets:
                stack.enter_context(setup.tracing(target, content=content or None))
        except setup.TracingError as error:
            fail(f"{'--tracing' if target == tracing else '--log'}: {error}", MISUSED)
        yield


def prices_of(texts: list[str] | None) -> "dict[str, Price]":
    """The prices of --price. Ends the command where one cannot be read."""
    from agentflow.evals.cost import Price, PriceError

    try:
        return dict(Price.parse(text) for text in texts or ())
    except PriceError as error:
        fail(f"--price: {error}", MISUSED)
