"""Who may ask, and what the page may do.

The page shows what models and tools wrote, to whoever sits at this machine, and to nobody else:

- a request that names another host than this one is refused, so that no web site can read the page by making its own
  name point here (DNS rebinding);
- only GET and HEAD are answered;
- the policy lets the page load its own files and nothing else, run no inline script, and never turn text into markup.
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
    """Middleware: refuses what is not for this machine, and adds the headers."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers or passes on."""
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
