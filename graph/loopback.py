"""Protection of local servers from requests that another site's page makes a browser send.

There are two ways to do so. A page can address the server directly, and the browser then sends the page's origin
(`Origin`). Or a page can let a name of its site resolve to 127.0.0.1 (DNS rebinding). The browser then sees a single
origin and sends none with a GET, but `Host` is that name. An IP address cannot be made to resolve elsewhere, nor can
localhost. Programs send no `Origin`.
"""

import re

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

_HOST = re.compile(r"(localhost|127(\.[0-9]{1,3}){3}|\[::1\])(:[0-9]+)?", re.ASCII | re.IGNORECASE)


def is_local_host(host: str) -> bool:
    """Return whether the value of a Host header is localhost or a loopback address."""
    return _HOST.fullmatch(host) is not None


def is_local_origin(origin: str) -> bool:
    """Return whether the value of an Origin header is a page served by this machine."""
    scheme, _, host = origin.partition("://")
    return scheme in ("http", "https") and is_local_host(host)


class LoopbackOnly:
    """ASGI middleware that answers 403 to requests with another Host, or from another site's page."""

    host_refusal = "this server answers to localhost and its addresses alone\n"
    origin_refusal = "pages of this origin may not use the server\n"

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        app = self.app
        if scope["type"] in ("http", "websocket"):
            headers = Headers(scope=scope)
            if not self.knows_host(headers.get("host", ""), scope):
                app = PlainTextResponse(self.host_refusal, status_code=403)
            elif (origin := headers.get("origin")) is not None and not self.knows_origin(origin):
                app = PlainTextResponse(self.origin_refusal, status_code=403)
        await app(scope, receive, send)

    def knows_host(self, host: str, scope: Scope) -> bool:
        """Return whether requests with this Host are accepted."""
        return is_local_host(host)

    def knows_origin(self, origin: str) -> bool:
        """Return whether requests from pages of this origin are accepted."""
        return is_local_origin(origin)
