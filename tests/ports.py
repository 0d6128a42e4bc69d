"""Ports of loopback for the servers of tests."""

import random
import socket

_chance = random.SystemRandom()  # no seed, which every worker would have

_given: set[int] = set()


def free_port() -> int:
    """A port that nobody listens at, and that this process has not been given before: models and the lists of a
    server's models are kept by its address, so that they would outlive it and be those of the next one.

    It is below the ports that a system gives to connections and to servers that ask for any. One of those could be in
    use again before a server that takes seconds to start listens at it.
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
