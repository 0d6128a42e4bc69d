"""Ports of loopback for the servers of tests."""

import random
import socket

_chance = random.SystemRandom()  # no seed, which every worker would have

_given: set[int] = set()


def free_port() -> int:
    """A free port that this process did not use before.

    A port is never reused, since models and lists of models are cached by the server's address. It is below Linux's
    ephemeral ports: one of those could be taken by a connection while the server still starts.
    """
    while True:
        port = _chance.randrange(10_000, 32_768)
        if port not in _given and _is_free(port):
            _given.add(port)
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
