"""Fetches a page whose address a model wrote, without exposing this machine or its network.

The host name is resolved here and every address it has must be public. The connection uses a checked address, so the
name cannot resolve to another one a moment later (DNS rebinding). The transport checks each request, including
redirects. Nothing is decompressed, so a small body cannot expand. The site's robots.txt is respected, also for each
redirect.
"""

import asyncio
import ipaddress
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx

from agentflow.tools.result import ErrorClass, ToolFailure
from agentflow.tools.web import robots
from agentflow.tools.web.hosts import ATTEMPTS, BUSY, MAX_WAIT, PAUSE, beginning, tls, turn_at
from agentflow.tools.web.rate_limits import asked_to_wait
from agentflow.version import __version__

USER_AGENT = f"agentflow-langgraph/{__version__} (web_search) httpx/{httpx.__version__}"
MAX_REDIRECTS = 5
MAX_URL = 4000
"""Maximum number of characters of an address, including those of redirects."""
_READABLE = re.compile(r"text/(html|plain|markdown|xml|csv)|application/(xhtml\+xml|xml|json|ld\+json|pdf)")
PDF = "application/pdf"
_NAT64 = ipaddress.ip_network("64:ff9b::/32")
_IPV4_COMPATIBLE = ipaddress.ip_network("::/96")
_UNICAST = ipaddress.ip_network("2000::/3")
"""All IPv6 addresses that are assigned to the public internet."""
_SPECIAL = tuple(
    map(ipaddress.ip_network, ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32", "2001::/23", "3fff::/20"))
)
"""Networks that `ipaddress` takes for public, at least in some versions of Python.

They are in IANA's registries of special-purpose addresses (the first contains one cloud's metadata service), except for
168.63.129.16, the address of Azure's host services.
"""

Origin = tuple[str, int]
"""Host in lower case, and port."""


@dataclass(frozen=True)
class FetchPolicy:
    """Limits on what may be fetched, and how much of it."""

    ports: frozenset[int] = frozenset({80, 443, 8080, 8443})
    allowed: frozenset[Origin] = frozenset()
    """Origins fetched without a check of their address and port, such as an intranet's wiki or a test server."""
    max_bytes: int = 3 << 20
    """Maximum size of text that is read; the rest is ignored."""
    max_pdf_bytes: int = 16 << 20
    """Maximum size of a PDF. A larger one is refused, since its table of contents is at its end."""
    seconds: float = 15.0
    """Total time limit, including redirects and robots.txt."""
    robots: bool = True
    """True if robots.txt is fetched and respected (RFC 9309)."""


@dataclass(frozen=True)
class Document:
    """A fetched document."""

    url: str
    """The address after redirects."""
    content_type: str
    body: bytes
    """Truncated to the policy's limit."""
    charset: str = ""
    """The charset that the server declares, which may be wrong or unknown."""


class PageRefused(ToolFailure):
    """An address or content that the policy forbids."""

    def __init__(self, message: str, *, code: str = "refused") -> None:
        super().__init__(ErrorClass.TOOL_ERROR, f"refused: {message}", code=code)


async def fetch(url: str, policy: FetchPolicy) -> Document:
    """Return the document at `url`. Raises PageRefused, or ToolFailure with one line on the cause."""
    with _failures_named(policy):
        async with turn_at(httpx.URL(url).netloc.decode()), asyncio.timeout(policy.seconds), _client(policy) as client:
            for _ in range(ATTEMPTS - 1):
                async with client.stream("GET", url) as response:
                    wait = asked_to_wait(response.headers) or PAUSE
                    if response.status_code not in BUSY or wait > MAX_WAIT:
                        return await _document(response, policy)
                await asyncio.sleep(wait)
            async with client.stream("GET", url) as response:
                return await _document(response, policy)


async def redirect_of(url: str, policy: FetchPolicy) -> str | None:
    """Return the address that `url` redirects to, without requesting it, or None if it does not redirect.

    Raises the same errors as `fetch`, but does not check robots.txt.
    """
    with _failures_named(policy):
        async with (
            asyncio.timeout(policy.seconds),
            _client(policy, heeding=False, follow=False) as client,
            client.stream("GET", url) as response,
        ):
            return str(response.next_request.url) if response.next_request else None


@contextmanager
def _failures_named(policy: FetchPolicy) -> Iterator[None]:
    try:
        yield
    except (TimeoutError, httpx.TimeoutException) as error:
        raise ToolFailure(ErrorClass.TIMEOUT, f"the page did not arrive in {policy.seconds:g} seconds") from error
    except httpx.TooManyRedirects as error:
        raise _failure(f"more than {MAX_REDIRECTS} redirects") from error
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise PageRefused(f"not a web address: {error}", code="bad_address") from error
    except httpx.HTTPError as error:
        raise _failure(f"the page could not be fetched ({type(error).__name__}: {error})") from error


def _client(policy: FetchPolicy, *, heeding: bool = True, follow: bool = True) -> httpx.AsyncClient:
    async def heed(request: httpx.Request) -> None:
        async with _client(policy, heeding=False) as client:
            if len(str(request.url)) > MAX_URL:  # matching robots.txt rules may take long for a long one
                raise PageRefused(f"an address of more than {MAX_URL} characters", code="long_address")
            if problem := await robots.problem(request.url, USER_AGENT, client):
                raise PageRefused(problem, code="robots")

    headers = {"User-Agent": USER_AGENT, "Accept": "text/html, text/*;q=0.8, */*;q=0.5", "Accept-Encoding": "identity"}
    return httpx.AsyncClient(
        transport=GuardedTransport(policy),
        headers=headers,
        timeout=policy.seconds,
        follow_redirects=follow,
        max_redirects=MAX_REDIRECTS,
        event_hooks={"request": [heed] if heeding and policy.robots else []},
        trust_env=False,
    )


async def _document(response: httpx.Response, policy: FetchPolicy) -> Document:
    if response.status_code != 200:
        raise _failure(f"{response.url.host} answered with HTTP {response.status_code}")
    content_type = response.headers.get("content-type", "text/html").partition(";")[0].strip().lower()
    if not _READABLE.fullmatch(content_type):
        raise PageRefused(f"content of type {content_type}; only text and PDF can be read", code="content_type")
    if response.headers.get("content-encoding", "identity") != "identity":
        raise PageRefused("a compressed answer to a request for a plain one", code="compressed")
    limit = policy.max_pdf_bytes if content_type == PDF else policy.max_bytes
    body = await beginning(response, limit + 1)
    if content_type == PDF and len(body) > limit:
        raise PageRefused(f"a PDF of more than {limit >> 20} MiB", code="large")
    return Document(str(response.url), content_type, body[:limit], response.charset_encoding or "")


class GuardedTransport(httpx.AsyncBaseTransport):
    """A transport that sends requests only to addresses that the policy permits."""

    def __init__(self, policy: FetchPolicy) -> None:
        self._policy = policy
        # Connections are not reused, since two names may share an address but must not share a TLS session.
        self._inner = httpx.AsyncHTTPTransport(verify=tls(), limits=httpx.Limits(max_keepalive_connections=0))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request. Raises PageRefused, or httpx.ConnectError if no address accepts the connection."""
        url = request.url
        if url.scheme not in ("http", "https"):
            raise PageRefused(f"the scheme of {url.scheme}:", code="scheme")
        host, port = url.host.rstrip(".").lower(), url.port or (443 if url.scheme == "https" else 80)
        if not host or url.userinfo:
            raise PageRefused("an address without a host, or with a user name in it", code="bad_address")
        if (host, port) in self._policy.allowed:
            return await self._inner.handle_async_request(request)
        if port not in self._policy.ports:
            raise PageRefused(f"port {port}", code="port")
        addresses = await _resolve(host, port)
        if not all(is_public(address) for address in addresses):
            raise PageRefused(f"{host} is not a public address", code="not_public")
        return await self._send(request, host, addresses)

    async def _send(self, request: httpx.Request, host: str, addresses: list[str]) -> httpx.Response:
        """Return the response of the first address that accepts the connection. Host header and TLS name stay the
        host's.
        """
        for address in addresses:
            pinned = httpx.Request(
                request.method,
                request.url.copy_with(host=address),
                headers=request.headers,
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": host},
            )
            try:
                return await self._inner.handle_async_request(pinned)
            except httpx.ConnectError as error:
                refusal = error
        raise refusal

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


async def _resolve(host: str, port: int) -> list[str]:
    """Return the addresses of `host`, at least one.

    Numeric hosts in any notation are resolved and so checked as well.
    """
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise _failure(f"the host {host} is not known") from error
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def is_public(address: str) -> bool:
    """Return whether an IP address belongs to the public internet. IPv4 addresses embedded in IPv6 ones are checked
    too.
    """
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour
        if inner is None and (ip in _NAT64 or ip in _IPV4_COMPATIBLE):
            inner = ipaddress.IPv4Address(ip.packed[-4:])
        if inner is not None:
            return is_public(str(inner))
        if ip not in _UNICAST:
            return False
    special = ip.is_multicast or ip.is_reserved or ip.is_link_local or any(ip in network for network in _SPECIAL)
    return ip.is_global and not special


def _failure(message: str) -> ToolFailure:
    return ToolFailure(ErrorClass.TOOL_ERROR, message)
