"""Landlock: restricts what a process may open. The kernel enforces it without privileges (Linux 5.13 and later).

A process that has restricted itself can read and write only below the named paths. It cannot trace a process outside,
or open its /proc entry. Where the kernel supports it (ABI 4 and 6), TCP, abstract Unix sockets and signals to others
are blocked as well. Landlock does not govern modes, owners and times of files, which `seccomp` handles, nor whether a
path exists. The numbers are those of <linux/landlock.h>.
"""

import os
import stat
import struct
from collections.abc import Iterable

from agentflow.tools.sandbox import kernel

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1
_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_SOCKET, _MAKE_FIFO, _MAKE_BLOCK = 1 << 6, 1 << 9, 1 << 10, 1 << 11
_TRUNCATE, _IOCTL_DEVICE = 1 << 14, 1 << 15
_OF_FILES = _WRITE_FILE | _READ_FILE | _TRUNCATE
_READ = _READ_FILE | _READ_DIR
_NEVER = _EXECUTE | _MAKE_CHAR | _MAKE_SOCKET | _MAKE_FIFO | _MAKE_BLOCK | _IOCTL_DEVICE
_RIGHTS_BY_ABI = {1: 13, 2: 14, 3: 15, 4: 15}
"""How many of the rights above each ABI knows; 16 from ABI 5 on."""
_TCP, _SCOPES = 3, 3
"""The rights to bind and connect; the scopes of abstract sockets and signals."""
_SIGNALS = 2

ABI_WITH_SIGNALS = 6


def abi() -> int:
    """Return the Landlock ABI version of the kernel, or 0 if it has none."""
    try:
        return kernel.syscall("landlock", _CREATE_RULESET, None, 0, _VERSION)
    except OSError:
        return 0


def restrict(read: Iterable[str], write: Iterable[str]) -> None:
    """Restrict this process to reading below `read` and to reading and writing below `write`. Nothing may be executed.

    Paths that do not exist or are out of reach anyway are skipped. Any other failure raises OSError. If a path were
    left out for want of a descriptor, the program would mistake it for a file that it may not open.
    """
    version = abi()
    handled = (1 << _RIGHTS_BY_ABI.get(version, 16)) - 1
    attributes = struct.pack("QQQ", handled, _TCP, _SCOPES)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = kernel.syscall("landlock_create_ruleset", _CREATE_RULESET, attributes, size, 0)
    for paths, rights in ((read, _READ), (write, handled & ~_NEVER)):
        for path in paths:
            _allow(ruleset, path, rights & handled)
    kernel.syscall("landlock_restrict_self", _RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def enter_domain() -> None:
    """Move this process and all its descendants into a new domain.

    They cannot trace processes outside, nor signal them from ABI 6 on. They can open the same files as before, but can
    no longer make block devices or change mounts. Raises OSError without Landlock.
    """
    attributes = struct.pack("QQQ", _MAKE_BLOCK, 0, _SIGNALS)
    size = 24 if abi() >= ABI_WITH_SIGNALS else 8
    ruleset = kernel.syscall("landlock_create_ruleset", _CREATE_RULESET, attributes, size, 0)
    kernel.syscall("landlock_restrict_self", _RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    if not stat.S_ISDIR(os.fstat(beneath).st_mode):
        rights &= _OF_FILES
    try:
        rule = struct.pack("=Qi", rights, beneath)
        kernel.syscall("landlock_add_rule", _ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
    finally:
        os.close(beneath)
