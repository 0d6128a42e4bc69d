"""Start a Ray worker as a fork of the template (`worker_template`): the `py_executable` of a training's Ray.

Only the standard library's built-in parts are imported: this runs, without site-packages, once per worker. Arguments:
the template's socket, the job whose workers it forks, and the worker's own command line without the executable. A
worker that the template does not take starts by itself.
"""

import json
import os
import socket
import sys

path, job, *argv = sys.argv[1:]
taken = b""
try:
    if os.environ.get("RAY_JOB_ID") == job:
        with socket.socket(socket.AF_UNIX) as template:
            template.connect(path)
            request = json.dumps([argv, dict(os.environ), os.getcwd()]).encode()
            socket.send_fds(template, [len(request).to_bytes(4, "big")], [0, 1, 2])
            template.sendall(request)
            taken = template.recv(1)
except OSError:
    pass  # the template has died
if not taken:
    os.execv(sys.executable, [sys.executable, *argv])  # noqa: S606 (the command line that Ray made)
