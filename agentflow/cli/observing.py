"""Tracing, logging and prices of a command, from its options."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from agentflow.cli.group import MISUSED, fail

if TYPE_CHECKING:
    from agentflow.graph.run.cost import Price


@contextmanager
def observing(tracing: str | None, log: str | None, *, content: bool = False) -> Iterator[None]:
    """Trace and log what runs inside the block. Ends the command if a target cannot be set up."""
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
    """Parse the values of --price. Ends the command if one is invalid."""
    from agentflow.graph.run.cost import Price, PriceError

    try:
        return dict(Price.parse(text) for text in texts or ())
    except PriceError as error:
        fail(f"--price: {error}", MISUSED)
