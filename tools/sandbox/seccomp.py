"""The seccomp filter: which system calls a program may make, and of some of them with which arguments.

An allow list (`syscalls`). A call that is not on it fails with EPERM; one newer than the list with ENOSYS, upon which
the C library takes the older call of the same purpose, whose arguments can be seen here: clone for clone3.

A filter is classic BPF: eight bytes an instruction, and a call's number and arguments to load.
"""

import errno
import platform
import struct
from functools import lru_cache

from agentflow.tools.sandbox.syscalls import numbers

_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
"""Offsets in what a filter sees of a call."""
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32 = 0x40000000
"""Bit of the numbers of a second set of calls on x86-64."""
_FIRST_NEW = 424
"""From here on numbers are the same on every architecture, and calls are newer than Linux 5.0."""

_CLONE_THREAD = 0x00010000
_AF_UNIX, _SOCK_STREAM, _SOCK_TYPE = 1, 1, 0xF
_FCNTL = (0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1030, 1032)
"""Descriptors, flags, locks, the size of a pipe. Not: who gets signals, leases, larger pipes."""
_IOCTL = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""Is it a terminal, its size, how much can be read, blocking or not, closing on exec."""
_PRCTL = (15, 16, 0x53564D41)
"""Names of threads and of memory."""
_METADATA = ("chmod", "fchmod", "fchmodat", "utime", "utimes", "futimesat", "utimensat")


def program(pid: int, *, keeps_metadata: bool, governs_truncate: bool, has_quota: bool) -> bytes:
    """The filter for the process `pid`, which may signal itself alone.

    `keeps_metadata` where files of the host can be seen: changing a file's mode or times then does nothing and says
    that it did (programs that copy files expect it to). `governs_truncate` if Landlock does; else truncate is refused.
    `has_quota` if the kernel limits the folder; else fallocate, which takes gigabytes between two looks at the folder,
    is not supported, and the C library writes in its place.
    """
    calls = numbers()
    to_self = b"".join(
        [
            _when(calls["kill"], _argument_is(0, pid)),
            _when(calls["tgkill"], _argument_is(0, pid)),
            _when(calls["prlimit64"], _argument_is(0, 0, pid)),
        ]
    )
    return _head() + to_self + _rest(keeps_metadata, governs_truncate, has_quota)


def _instruction(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    """`yes` and `no`: how many instructions to skip."""
    return struct.pack("HBBI", code, yes, no, value)


def _refuse(number: int) -> bytes:
    return _instruction(_RETURN, 0x00050000 | number)


def _head() -> bytes:
    """Only calls of this machine's own kind; leaves the call's number loaded."""
    machine = platform.machine()
    kill = _instruction(_RETURN, _KILL)
    code = _instruction(_LOAD, _ARCHITECTURE) + _instruction(_EQUAL, _ARCHITECTURES[machine], 1, 0) + kill
    code += _instruction(_LOAD, _NUMBER)
    return code + _instruction(_AT_LEAST, _X32, 0, 1) + kill if machine == "x86_64" else code


@lru_cache(maxsize=8)
def _rest(keeps_metadata: bool, governs_truncate: bool, has_quota: bool) -> bytes:
    """What does not depend on the process."""
    calls = numbers()
    stream = _instruction(_LOAD, _ARGUMENTS + 8) + _instruction(_AND, _SOCK_TYPE)
    stream += _instruction(_EQUAL, _SOCK_STREAM, 1, 0) + _refuse(errno.EPERM)
    checked = {
        "clone": _instruction(_LOAD, _ARGUMENTS) + _instruction(_ANY_BIT, _CLONE_THREAD, 1, 0) + _refuse(errno.EPERM),
        "fcntl": _argument_is(1, *_FCNTL),
        "ioctl": _argument_is(1, *_IOCTL, error=errno.ENOTTY),
        "prctl": _argument_is(0, *_PRCTL),
        # Datagram sockets could be sent to by name, so a pair is of streams, and nothing is sent to an address.
        "socketpair": _argument_is(0, _AF_UNIX) + stream,
        "sendto": _argument_is(4, 0) + _upper_half_is_zero(4),
    }
    code = b"".join(_when(calls[name], check) for name, check in checked.items())
    decided = {*checked, "kill", "tgkill", "prlimit64"}
    if keeps_metadata:
        code += b"".join(_when(calls[name], _refuse(0)) for name in _METADATA if name in calls)
        decided.update(_METADATA)
    if not has_quota:
        code += _when(calls["fallocate"], _refuse(errno.EOPNOTSUPP))
        decided.add("fallocate")
    if not governs_truncate:
        decided.add("truncate")
    allowed = (number for name, number in calls.items() if name not in decided)
    code += b"".join(_when(number, b"") for number in allowed)
    return code + _instruction(_AT_LEAST, _FIRST_NEW, 0, 1) + _refuse(errno.ENOSYS) + _refuse(errno.EPERM)


def _when(number: int, check: bytes) -> bytes:
    """Decides the call `number`: `check`, which refuses or falls through, and then allow."""
    body = check + _instruction(_RETURN, _ALLOW)
    return _instruction(_EQUAL, number, 0, len(body) // 8) + body


def _argument_is(index: int, *values: int, error: int = errno.EPERM) -> bytes:
    """Falls through if the lower half of the argument is one of `values`: all that the kernel reads of an int."""
    code = _instruction(_LOAD, _ARGUMENTS + 8 * index)
    for place, value in enumerate(values):
        code += _instruction(_EQUAL, value, len(values) - place, 0)
    return code + _refuse(error)


def _upper_half_is_zero(index: int) -> bytes:
    """For a pointer, of which all counts."""
    return _instruction(_LOAD, _ARGUMENTS + 8 * index + 4) + _instruction(_EQUAL, 0, 1, 0) + _refuse(errno.EPERM)
