"""An HTTP server that does not answer while a test runs."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from werkzeug import Request, Response

from tests.waiting import LAST_RESORT

Handler = Callable[[Request], Response]
"""Handler of a request of pytest-httpserver."""


@contextmanager
def hanging() -> Iterator[Handler]:
    """A handler that does not reply inside `with`."""
    over = threading.Event()

    def handle(request: Request) -> Response:
        over.wait(LAST_RESORT)
        return Response()

    try:
        yield handle
    finally:
        over.set()
