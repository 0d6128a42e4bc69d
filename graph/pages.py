"""Which web pages may use the server: LangGraph Studio's, those of this machine, and those that the operator granted.

A page of any site can send requests to 127.0.0.1 from the browser of whoever looks at it, and so start runs; a browser
says in each of them which page it was (`Origin`). The LangGraph server by itself lets all in. Programs say no origin.

AGENTFLOW_ORIGINS   origins of further pages, with commas
"""

import re

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from agentflow.graph.grants import granted

ORIGINS = "AGENTFLOW_ORIGINS"

_KNOWN = re.compile(
    r"https://([a-z0-9-]+\.)?smith\.langchain\.com|https?://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?", re.ASCII
)


class OnlyKnownPages:
    """ASGI middleware: 403 to requests from other pages."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or refuses it."""
        origin = Headers(scope=scope).get("origin") if scope["type"] in ("http", "websocket") else None
        if origin is None or _KNOWN.fullmatch(origin) or origin in granted(ORIGINS):
            await self.app(scope, receive, send)
        else:
            refusal = f"pages of this origin may not use the server; its operator grants it in {ORIGINS}\n"
            await PlainTextResponse(refusal, status_code=403)(scope, receive, send)


app = Starlette(middleware=[Middleware(OnlyKnownPages)])
"""What `langgraph.json` adds to the server: no route, only this check before all of them."""
