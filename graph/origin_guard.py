"""Restriction of the LangGraph server to certain web pages: LangGraph Studio, local pages and granted ones.

The LangGraph server itself answers all pages; see `loopback` for how they reach it.

AGENTFLOW_ORIGINS   origins that the operator grants, separated by commas; their hosts may also name the server
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
"""Hosts of `langgraph dev --tunnel`. These names always resolve to Cloudflare, regardless of their owner."""


class OriginGuard(LoopbackOnly):
    """ASGI middleware that answers 403 to requests from other pages."""

    host_refusal = f"the server is not known by this name; its operator grants https://NAME in {ORIGINS}\n"
    origin_refusal = f"pages of this origin may not use the server; its operator grants it in {ORIGINS}\n"

    def knows_host(self, host: str, scope: Scope) -> bool:
        """Return whether requests with this Host are accepted.

        A server reached at an address beyond loopback may have any name, since it relies on its network for protection.
        """
        return (
            is_local_host(host)
            or _TUNNEL.fullmatch(host) is not None
            or host in {origin.partition("://")[2] for origin in granted(ORIGINS)}
            or _reached_otherwise(scope)
        )

    def knows_origin(self, origin: str) -> bool:
        """Return whether pages of this origin may use the server."""
        return is_local_origin(origin) or _STUDIO.fullmatch(origin) is not None or origin in granted(ORIGINS)


def _reached_otherwise(scope: Scope) -> bool:
    """Return whether a request arrived at an address beyond loopback, or from the LangGraph server itself."""
    name, port = scope.get("server") or ("", None)
    if (name, port) == ("api", None):
        return True
    try:
        return not ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


app = Starlette(middleware=[Middleware(OriginGuard)])
"""The app that `langgraph.json` adds to the server. It has no routes, only this check before all routes."""
