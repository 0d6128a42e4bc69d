"""Which web pages may use the LangGraph server: LangGraph Studio's, those of this machine, and those that the operator
granted. The LangGraph server by itself answers all (`loopback` says how they reach it).

AGENTFLOW_ORIGINS   origins of further pages, with commas; their hosts' names may be the server's own, too
"""

import ipaddress
import re

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.types import Scope

from agentflow.graph.grants import granted
from agentflow.graph.loopback import LoopbackOnly, is_local_host, is_local_origin

ORIGINS = "AGENTFLOW_ORIGINS"

_STUDIO = re.compile(r"https://([a-z0-9-]+\.)?smith\.langchain\.com", re.ASCII)
_TUNNEL = re.compile(r"[a-z0-9-]+\.trycloudflare\.com", re.ASCII)
"""Hosts of `langgraph dev --tunnel`: their names resolve to Cloudflare, whoever owns them."""


class OriginGuard(LoopbackOnly):
    """ASGI middleware: 403 to requests from other pages."""

    host_refusal = f"the server is not known by this name; its operator grants https://NAME in {ORIGINS}\n"
    origin_refusal = f"pages of this origin may not use the server; its operator grants it in {ORIGINS}\n"

    def knows_host(self, host: str, scope: Scope) -> bool:
        """A server that is reached by another address than loopback's may have any name; its network guards it."""
        return (
            is_local_host(host)
            or _TUNNEL.fullmatch(host) is not None
            or host in {origin.partition("://")[2] for origin in granted(ORIGINS)}
            or _reached_otherwise(scope)
        )

    def knows_origin(self, origin: str) -> bool:
        """Whether pages of an origin may use it."""
        return is_local_origin(origin) or _STUDIO.fullmatch(origin) is not None or origin in granted(ORIGINS)


def _reached_otherwise(scope: Scope) -> bool:
    """Whether a request came in at an address beyond loopback, or from the LangGraph server itself."""
    name, port = scope.get("server") or ("", None)
    if (name, port) == ("api", None):
        return True
    try:
        return not ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


app = Starlette(middleware=[Middleware(OriginGuard)])
"""What `langgraph.json` adds to the server: no route, only this check before all of them."""
