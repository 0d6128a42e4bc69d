"""Run a program in the Landlock tier as an ordinary user whom the system allows no namespace, hence no private mount.

This process has no privileges, as in a default container. Files of root remain its own, so that a checkout that only
root can read works too; its real user is another one, since the kernel exempts root from the limit on threads.
"""

import errno
import json
import os
import struct
import sys
import threading
from dataclasses import asdict

from agentflow.tools.sandbox import kernel
from agentflow.tools.sandbox.fork_client import ForkServerClient
from agentflow.tools.sandbox.limits import Limits

NOBODY = 65534
_UNSHARE = 272
"""The number of `unshare` on x86-64."""
_FILTER = [(0x20, 0, 0, 0), (0x15, 0, 1, _UNSHARE), (0x06, 0, 0, 0x00050000 | errno.EPERM), (0x06, 0, 0, 0x7FFF0000)]
"""Load the call's number; if it is `unshare`, return EPERM; otherwise allow the call."""


def main(program: str) -> None:
    """Run `program` and print its outcome as JSON."""
    if os.geteuid() == 0:
        os.setresuid(NOBODY, 0, 0)
    kernel.no_new_privileges()
    kernel.drop_capabilities()
    kernel.install_filter(b"".join(struct.pack("HBBI", *instruction) for instruction in _FILTER))
    server = ForkServerClient("landlock")
    try:
        print(json.dumps(asdict(server.run(program, Limits(), threading.Event()))))
    finally:
        server.close()


if __name__ == "__main__":
    main(sys.argv[1])
