"""The socket that a command listens on: loopback unless the command says otherwise, and taken before it says so."""

import ipaddress
import socket

from agentflow.cli.group import MISUSED, fail


def listen(host: str, port: int, elsewhere: str = "") -> socket.socket:
    """The socket, bound. Ends the command where that cannot be. `elsewhere` is why others must not reach it, if so."""
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
    """Where a browser finds it."""
    return f"http://{host if ':' not in host else f'[{host}]'}:{listening.getsockname()[1]}"
