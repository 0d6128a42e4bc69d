"""Starts a program with the user's rights that cannot inspect the user's other processes.

`main` enters a Landlock domain, which is inherited, and replaces itself with the program. A process in a domain cannot
trace a process outside it, nor read its environment or memory in /proc, unless it has capabilities; root's capabilities
are dropped. From Linux 6.12 on it cannot send signals to processes outside either. Files and the network stay
accessible. The program ends with the process that started it. A program that mounts file systems or gains privileges
(sudo) does not work in such a domain.
"""

import os
import shutil
import signal
import sys

from agentflow.tools.sandbox import interpreter, kernel, landlock


def command(program: list[str]) -> list[str]:
    """Return the command that starts `program` in a domain, or `program` itself where the system has no Landlock."""
    if sys.platform != "linux" or not landlock.abi():
        return program
    return interpreter.command("isolate", str(interpreter.home()), *program)


def main() -> None:
    """Replace this process with the program that the arguments name."""
    kernel.die_with_parent(signal.SIGTERM)
    kernel.no_new_privileges()
    kernel.drop_capabilities()
    landlock.enter_domain()
    program = sys.argv[1:]
    os.execv(shutil.which(program[0]) or program[0], program)  # noqa: S606 - no shell by design
