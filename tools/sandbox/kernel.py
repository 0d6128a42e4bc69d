"""The system calls that Python's standard library does not wrap. Each failure raises OSError."""

import ctypes
import os

NEW_MOUNTS, NEW_IPC, NEW_USER = 0x00020000, 0x08000000, 0x10000000
"""Flags of `unshare`."""
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE = 1 << 12, 1 << 14, 1 << 18
"""Flags of `mount`."""

_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 1, 24, 38, 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
_CAPABILITY_HEADER = b"\x22\x05\x08\x20" + bytes(4)
"""Version 3, this process."""

# PyDLL keeps the GIL: these calls are quick, and no other thread may run in between.
_libc = ctypes.PyDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def syscall(what: str, number: int, *arguments: int | bytes | None) -> int:
    """Make a system call by number; `what` names it in the error."""
    widened = (ctypes.c_long(value) if isinstance(value, int) else value for value in arguments)
    return _checked(_libc.syscall(ctypes.c_long(number), *widened), what)


def unshare(flags: int) -> None:
    """Move this process into new namespaces."""
    _checked(_libc.unshare(flags), "unshare")


def own_user_namespace() -> None:
    """Move this single-threaded process into a user namespace that maps its own user and grants every capability."""
    user, group = os.geteuid(), os.getegid()
    os.stat("/proc/self/uid_map")  # fail before `unshare`, since without /proc users cannot be mapped
    unshare(NEW_USER)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """Call mount(2)."""
    arguments = (text.encode() for text in (source, target, kind))
    _checked(_libc.mount(*arguments, ctypes.c_ulong(flags), options.encode()), f"mount {target}")


def die_with_parent(signal: int) -> None:
    """Have the kernel send `signal` to this process when the thread that forked it ends."""
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, signal, 0, 0, 0), "prctl")


def no_new_privileges() -> None:
    """Keep executed programs from gaining privileges. seccomp and Landlock require it."""
    _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")


def drop_capabilities() -> None:
    """Drop every capability, and where permitted also those that could be regained."""
    for capability in range(64):
        _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    _libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    _checked(_libc.capset(_CAPABILITY_HEADER, bytes(24)), "capset")


def capabilities() -> int | None:
    """Return the effective capabilities of this process as bits, or None if /proc does not report them."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            return next((int(line.split()[1], 16) for line in status if line.startswith("CapEff:")), None)
    except OSError:
        return None


def install_filter(program: bytes) -> None:
    """Install a seccomp filter for this thread and its descendants.

    It is classic BPF of eight bytes per instruction.
    """

    class FilterProgram(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))

    argument = FilterProgram(len(program) // 8, program)
    _checked(_libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(argument), 0, 0), "seccomp")
