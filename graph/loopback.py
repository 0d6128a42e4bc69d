"""Servers on this machine, and requests to them that another site's page makes a browser send.

Any page can do so in two ways. It names the server's own address: the browser then sends the page's origin (`Origin`).
Or it lets a name of its own site resolve to 127.0.0.1 (DNS rebinding): to the browser both are one origin, and a GET
carries none, but `Host` is that name. An address cannot be made to resolve elsewhere, nor can localhost.
Programs send no `Origin`.
"""

import re

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

_HOST = re.compile(r"(localhost|127(\.[0-9]{1,3}){3}|\[::1\])(:[0-9]+)?", re.ASCII | re.IGNORECASE)


def is_local_host(host: str) -> bool:
    """Whether the value of a Host header is localhost or an address of loopback."""
    return _HOST.fullmatch(host) is not None


def is_local_origin(origin: str) -> bool:
    """Whether the value of an Origin header is a page that this machine serves."""
    scheme, _, host = origin.partition("://")
    return scheme in ("http", "https") and is_local_host(host)


class LoopbackOnly:
    """ASGI middleware: 403 to requests under another host's name, or from another site's page."""

    host_refusal = "this server answers to localhost and its addresses alone\n"
    origin_refusal = "pages of this origin may not use the server\n"

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or refuses it."""
        app = self.app
        if scope["type"] in ("http", "websocket"):
            headers = Headers(scope=scope)
            if not self.knows_host(headers.get("host", ""), scope):
                app = PlainTextResponse(self.host_refusal, status_code=403)
            elif (origin := headers.get("origin")) is not None and not self.knows_origin(origin):
                app = PlainTextResponse(self.origin_refusal, status_code=403)
        await app(scope, receive, send)

    def knows_host(self, host: str, scope: Scope) -> bool:
        """Whether requests to a host of this name are answered."""
        return is_local_host(host)

    def knows_origin(self, origin: str) -> bool:
        """Whether pages of an origin are."""
        return is_local_origin(origin)
