"""Paths of the running interpreter and the system's libraries: all that a program must be able to read."""

import os
import sys
import tempfile
from pathlib import Path

import agentflow

SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives")
DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/sys/devices/system/cpu")

BOOT = "import sys; sys.path.insert(0, sys.argv.pop(1)); from {module} import main; main()"
"""Starts a module of this package in an interpreter that does not have it on its path. The first argument is the folder
that holds the package.
"""

ENVIRONMENT = {
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
    "MPLBACKEND": "Agg",
}
"""The whole environment of a program.

It fixes the order of sets, keeps libraries from starting threads, which a fork would lose, and reduces the address
space of programs that start threads.
"""


def command(module: str, home: str, *arguments: str) -> list[str]:
    """Return the command that runs `main()` of a module of this package, with the standard library and installed
    packages.
    """
    options = ("-s", "-P", "-B", "-X", "utf8")
    return [sys.executable, *options, "-c", BOOT.format(module=f"agentflow.tools.sandbox.{module}"), home, *arguments]


def home() -> Path:
    """Return the folder that holds the `agentflow` package."""
    return Path(agentflow.__file__).parents[1]


def folders() -> list[str]:
    """Return the libraries and executables of the interpreter and its virtual environment, without other files next to
    them.
    """
    prefixes = {prefix for path in (sys.prefix, sys.base_prefix) for prefix in (path, os.path.realpath(path))}
    parts = ("bin", "lib", "lib64", "pyvenv.cfg")
    found = (os.path.join(prefix, part) for prefix in sorted(prefixes) for part in parts)
    return [path for path in found if os.path.lexists(path) and not path.startswith("/usr/")]


def readable_by_all() -> bool:
    """Return whether every user can read the interpreter and reach the programs' folders."""
    paths = [os.path.realpath(path) for path in (*folders(), tempfile.gettempdir())]
    ancestors = {parent for path in paths for parent in Path(path).parents}
    return all(os.stat(parent).st_mode & 0o001 for parent in ancestors)
