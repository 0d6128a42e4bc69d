"""The seccomp filter: the system calls that a program may make, some of them only with certain arguments.

It is an allow list (`syscalls`). A call that is not on it fails with EPERM. A call newer than the list fails with
ENOSYS, so that the C library falls back to the older call, whose arguments the filter can check: clone instead of
clone3.

A filter is classic BPF with eight bytes per instruction. It can load a call's number and arguments.
"""

import errno
import platform
import struct
from functools import lru_cache

from agentflow.tools.sandbox.syscalls import numbers

_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
"""Offsets in the data that a filter receives for a call."""
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32 = 0x40000000
"""The bit that marks the numbers of x86-64's second set of calls."""
_FIRST_NEW = 424
"""From this number on, numbers are the same on every architecture, and calls are newer than Linux 5.0."""

_CLONE_THREAD = 0x00010000
_AF_UNIX, _SOCK_STREAM, _SOCK_TYPE = 1, 1, 0xF
_FCNTL = (0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1030, 1032)
"""Descriptors, flags, locks, the size of a pipe. Not allowed: recipients of signals, leases, larger pipes."""
_IOCTL = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""Terminal checks and size, number of readable bytes, blocking mode, close-on-exec."""
_PRCTL = (15, 16, 0x53564D41)
"""Names of threads and of memory."""
_METADATA = ("chmod", "fchmod", "fchmodat", "utime", "utimes", "futimesat", "utimensat")


def program(pid: int, *, keeps_metadata: bool) -> bytes:
    """Return the filter for the process `pid`, which may only send signals to itself.

    `keeps_metadata` applies where files of the host are visible: changing a file's mode or times then does nothing but
    reports success, as programs that copy files expect.
    """
    calls = numbers()
    to_self = b"".join(
        [
            _when(calls["kill"], _argument_is(0, pid)),
            _when(calls["tgkill"], _argument_is(0, pid)),
            _when(calls["prlimit64"], _argument_is(0, 0, pid)),
        ]
    )
    return _head() + to_self + _rest(keeps_metadata)


def _instruction(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    """Return an instruction. `yes` and `no` are how many instructions to skip."""
    return struct.pack("HBBI", code, yes, no, value)


def _refuse(number: int) -> bytes:
    return _instruction(_RETURN, 0x00050000 | number)


def _head() -> bytes:
    """Reject calls of other architectures, and leave the call's number loaded."""
    machine = platform.machine()
    kill = _instruction(_RETURN, _KILL)
    code = _instruction(_LOAD, _ARCHITECTURE) + _instruction(_EQUAL, _ARCHITECTURES[machine], 1, 0) + kill
    code += _instruction(_LOAD, _NUMBER)
    return code + _instruction(_AT_LEAST, _X32, 0, 1) + kill if machine == "x86_64" else code


@lru_cache(maxsize=8)
def _rest(keeps_metadata: bool) -> bytes:
    """Return the part that does not depend on the process."""
    calls = numbers()
    stream = _instruction(_LOAD, _ARGUMENTS + 8) + _instruction(_AND, _SOCK_TYPE)
    stream += _instruction(_EQUAL, _SOCK_STREAM, 1, 0) + _refuse(errno.EPERM)
    checked = {
        "clone": _instruction(_LOAD, _ARGUMENTS) + _instruction(_ANY_BIT, _CLONE_THREAD, 1, 0) + _refuse(errno.EPERM),
        "fcntl": _argument_is(1, *_FCNTL),
        "ioctl": _argument_is(1, *_IOCTL, error=errno.ENOTTY),
        "prctl": _argument_is(0, *_PRCTL),
        # Datagram sockets can send to a named socket. So pairs must be stream sockets, and sendto has no address.
        "socketpair": _argument_is(0, _AF_UNIX) + stream,
        "sendto": _argument_is(4, 0) + _upper_half_is_zero(4),
    }
    code = b"".join(_when(calls[name], check) for name, check in checked.items())
    # It could take gigabytes between two checks of the folder. The C library writes instead.
    code += _when(calls["fallocate"], _refuse(errno.EOPNOTSUPP))
    decided = {*checked, "fallocate", "kill", "tgkill", "prlimit64"}
    if keeps_metadata:
        code += b"".join(_when(calls[name], _refuse(0)) for name in _METADATA if name in calls)
        decided.update(_METADATA)
    allowed = (number for name, number in calls.items() if name not in decided)
    code += b"".join(_when(number, b"") for number in allowed)
    return code + _instruction(_AT_LEAST, _FIRST_NEW, 0, 1) + _refuse(errno.ENOSYS) + _refuse(errno.EPERM)


def _when(number: int, check: bytes) -> bytes:
    """Decide the call `number`: run `check`, which refuses or falls through, and then allow."""
    body = check + _instruction(_RETURN, _ALLOW)
    return _instruction(_EQUAL, number, 0, len(body) // 8) + body


def _argument_is(index: int, *values: int, error: int = errno.EPERM) -> bytes:
    """Fall through if the lower half of the argument, all that the kernel reads of an int, is one of `values`."""
    code = _instruction(_LOAD, _ARGUMENTS + 8 * index)
    for place, value in enumerate(values):
        code += _instruction(_EQUAL, value, len(values) - place, 0)
    return code + _refuse(error)


def _upper_half_is_zero(index: int) -> bytes:
    """Check the upper half of a pointer, for which all bits count."""
    return _instruction(_LOAD, _ARGUMENTS + 8 * index + 4) + _instruction(_EQUAL, 0, 1, 0) + _refuse(errno.EPERM)
