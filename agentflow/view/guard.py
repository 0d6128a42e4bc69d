"""Access control of the page, which shows output of models and tools.

- A request whose host is not this machine is refused. This prevents DNS rebinding, by which a web site could read the
  page.
- Only GET and HEAD are answered: the page changes nothing.
- The content security policy allows the page's own files only, no inline scripts, and no conversion of text to markup.
"""

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agentflow.graph.loopback import is_local_host

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)

HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-cache",
}


class Guard:
    """Middleware that refuses requests from elsewhere and adds the security headers."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request or pass it on."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        app = self.app
        if not is_local_host(Headers(scope=scope).get("host", "")):
            app = PlainTextResponse("this page is for this machine alone; open it by the address printed", 400)
        elif scope["method"] not in ("GET", "HEAD"):
            app = PlainTextResponse("this page is for looking", 405, {"Allow": "GET, HEAD"})
        await app(scope, receive, with_headers)
