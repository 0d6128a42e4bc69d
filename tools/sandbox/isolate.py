"""Starts a program that can do what the user can, but cannot look into the user's other processes.

`main` confines itself by a Landlock domain, which is inherited, and becomes the program. No process in a domain can
trace one outside, nor read its environment or memory in /proc, unless it has capabilities; root's are given up. From
Linux 6.12 on it cannot send one signals either. Files and network stay open to it, and it ends with the process that
started it. A program that mounts file systems or gains rights (sudo) does not work like this.
"""

import os
import shutil
import signal
import sys

from agentflow.tools.sandbox import interpreter, kernel, landlock


def command(program: list[str]) -> list[str]:
    """The command that starts `program` apart; `program` itself where the system has no Landlock."""
    if sys.platform != "linux" or not landlock.abi():
        return program
    return interpreter.command("isolate", str(interpreter.home()), *program)


def main() -> None:
    """Becomes the program that the arguments name."""
    kernel.die_with_parent(signal.SIGTERM)
    kernel.no_new_privileges()
    kernel.drop_capabilities()
    landlock.enter_domain()
    program = sys.argv[1:]
    os.execv(shutil.which(program[0]) or program[0], program)  # noqa: S606 - there is no shell, as it should be
