"""Listening sockets of the commands that serve; bound before the command prints its URL."""

import ipaddress
import socket
from typing import TYPE_CHECKING

from agentflow.cli.group import MISUSED, fail

if TYPE_CHECKING:
    from starlette.types import ASGIApp


def listen(host: str, port: int, elsewhere: str = "") -> socket.socket:
    """Bind a listening socket; ends the command if that fails.

    A non-empty `elsewhere` refuses addresses that other machines reach, and is the reason shown.
    """
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError):
        fail(f"--host {host} is no address; write 127.0.0.1, or one of this machine's", MISUSED)
    if elsewhere and not ipaddress.ip_address(address[0]).is_loopback:
        fail(f"others reach {host}: {elsewhere}", MISUSED)
    try:
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        fail(f"cannot listen on {host}, port {port} ({error.strerror}); choose another --port", MISUSED)


def url_of(host: str, listening: socket.socket) -> str:
    """Return the URL of a listening socket."""
    return f"http://{host if ':' not in host else f'[{host}]'}:{listening.getsockname()[1]}"


def serve_at(listening: socket.socket, app: "ASGIApp") -> None:
    """Serve the app until interrupted, and close the socket."""
    import uvicorn

    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=3)
    with listening:
        uvicorn.Server(config).run(sockets=[listening])
