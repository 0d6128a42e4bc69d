"""Start a Ray worker as a fork of the template (`worker_template`): the `py_executable` of a training's Ray.

Only built-in modules are imported, and no site-packages: this runs once per worker.
"""

import json
import os
import socket
import sys


def taken(path: str, job: str, argv: list[str]) -> bool:
    """Ask the template at the socket `path`, which forks workers of `job`, for a worker with this command line."""
    if os.environ.get("RAY_JOB_ID") != job:
        return False
    try:
        with socket.socket(socket.AF_UNIX) as template:
            template.connect(path)
            request = json.dumps([argv, dict(os.environ), os.getcwd()]).encode()
            socket.send_fds(template, [len(request).to_bytes(4, "big")], [0, 1, 2])
            template.sendall(request)
            return bool(template.recv(1))
    except OSError:
        return False  # the template has died


def main(path: str, job: str, *argv: str) -> None:
    """Start a worker. One that the template does not take starts by itself."""
    if not taken(path, job, list(argv)):
        os.execv(sys.executable, [sys.executable, *argv])  # noqa: S606 (the command line that Ray made)


if __name__ == "__main__":
    main(*sys.argv[1:])
