"""Tracing and prices of a command, from its options."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from agentflow.cli.group import MISUSED, fail

if TYPE_CHECKING:
    from agentflow.graph.run.cost import Price


@contextmanager
def observing(tracing: str | None) -> Iterator[None]:
    """Trace what runs inside the block. Ends the command if a target cannot be set up."""
    if not tracing:
        yield
        return
    from agentflow.graph.tracing import setup

    with ExitStack() as stack:
        try:
            stack.enter_context(setup.tracing(tracing))
        except setup.TracingError as error:
            fail(f"--tracing: {error}", MISUSED)
        yield


def prices_of(texts: list[str] | None) -> "dict[str, Price]":
    """Parse the values of --price. Ends the command if one is invalid."""
    from agentflow.graph.run.cost import Price, PriceError

    try:
        return dict(Price.parse(text) for text in texts or ())
    except PriceError as error:
        fail(f"--price: {error}", MISUSED)
