"""The privileges that a forked child drops before it runs a program, in layers that are each effective alone.

In a tier with separate mounts (bubblewrap), the child's folder is a fresh tmpfs for which the kernel limits the size
and the number of files, and /proc is empty. Every tier applies resource limits, a separate user if the server is root,
no capabilities, Landlock, and seccomp. The order matters: each step needs something that a later step removes.
"""

import math
import os
import resource
import signal
from contextlib import suppress
from dataclasses import dataclass, field

from agentflow.tools.sandbox import kernel, landlock, seccomp
from agentflow.tools.sandbox.limits import Limits

WORK = "/.program"
"""A program's folder in a separate root file system. The name does not hide any folder of the host."""

OPEN_FILES = 64
PENDING_SIGNALS = 256
"""Maximum number of queued signals and POSIX timers together, since each timer may queue a signal."""

_UNTRUSTED = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC


@dataclass(frozen=True)
class Surroundings:
    """The environment of a fork server, which is the same for all its programs."""

    folders: str
    """Parent of the programs' folders in a tier without separate mounts."""
    first_user: int | None
    """User id of the first concurrent program; the next one gets the following id. None if the server is not root."""
    own_mounts: bool = False
    """True if each program gets separate mounts, in a root file system without files of the host."""
    own_tmp: bool = False
    """True if the program's folder can also be its /tmp. It cannot if the interpreter is below /tmp."""
    readable: list[str] = field(default_factory=list)
    """Paths of the system and the interpreter, for Landlock."""
    files_as_root: bool = False
    """True if only root can read the interpreter. Programs then run as other users with root's access to files, but
    without root's capabilities.
    """
    own_folder: bool = False
    """True if the kernel limits each folder in a tier without separate mounts: see `own_folder_works`."""


def confine(surroundings: Surroundings, limits: Limits, folder: str, slot: int, server: int) -> None:
    """Drop every privilege that a program must not have. Raises OSError; the child of `server` must then exit."""
    user = None if surroundings.first_user is None else surroundings.first_user + slot
    occupied, others = _address_space(), tasks()  # before an empty /proc is mounted
    alone = user is not None
    if surroundings.own_mounts:
        _mount(limits, os.geteuid() if user is None else user, surroundings.own_tmp)
        if user is None:
            with suppress(OSError):  # where namespaces cannot be nested, the limit on tasks is wider
                kernel.unshare(kernel.NEW_USER)  # there, the limit counts this program only; no user mapping is needed
                alone = True
    elif surroundings.own_folder:
        owner = os.geteuid() if user is None or surroundings.files_as_root else user
        _mount_folder(folder, limits, owner, user_namespace=user is None)
        alone = True  # the limit on tasks counts the user's tasks within its user namespace
    _limit_resources(limits, occupied, 0 if alone else others)
    if user is not None:
        _become(user, surroundings.files_as_root)
    os.chdir(folder)
    kernel.die_with_parent(signal.SIGKILL)  # only now, since a change of user clears it
    if os.getppid() != server:
        raise OSError("the fork server ended")
    kernel.no_new_privileges()
    kernel.drop_capabilities()
    if landlock.abi() or not surroundings.own_mounts:
        writable = [folder, "/dev/null", *(["/tmp"] if surroundings.own_mounts and surroundings.own_tmp else [])]  # noqa: S108
        landlock.restrict(["/"] if surroundings.own_mounts else surroundings.readable, writable)
    kernel.install_filter(seccomp.program(os.getpid(), keeps_metadata=not surroundings.own_mounts))


def _limit_resources(limits: Limits, occupied: int, tasks_of_others: int) -> None:
    seconds = math.ceil(limits.seconds)
    limit(resource.RLIMIT_CPU, seconds, seconds + 1)  # SIGXCPU first, which identifies the cause, then SIGKILL
    limit(resource.RLIMIT_AS, occupied + limits.memory_bytes)
    limit(resource.RLIMIT_FSIZE, limits.file_bytes)
    limit(resource.RLIMIT_NPROC, tasks_of_others + limits.threads)
    limit(resource.RLIMIT_NOFILE, OPEN_FILES)
    limit(resource.RLIMIT_SIGPENDING, PENDING_SIGNALS)
    for nothing in (resource.RLIMIT_CORE, resource.RLIMIT_MEMLOCK, resource.RLIMIT_MSGQUEUE):
        limit(nothing, 0)


def limit(kind: int, soft: int, hard: int | None = None) -> None:
    """Set a resource limit, unless a lower one is already set."""
    highest = resource.getrlimit(kind)[1]
    values = [value if highest == resource.RLIM_INFINITY else min(value, highest) for value in (soft, hard or soft)]
    resource.setrlimit(kind, (values[0], values[1]))


def _address_space() -> int:
    """Return the address space of this process in bytes. It is still a copy of the server."""
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[0]) * resource.getpagesize()


def tasks() -> int:
    """Return an upper bound for the number of this user's tasks, all of which count towards the limit: the tasks of the
    system.
    """
    with open("/proc/loadavg", encoding="ascii") as loadavg:
        return int(loadavg.read().split()[3].split("/")[1])


def _mount(limits: Limits, user: int, own_tmp: bool) -> None:
    """Mount a folder with a quota and an empty /proc, visible to this process only."""
    kernel.unshare(kernel.NEW_MOUNTS | kernel.NEW_IPC)
    kernel.mount("none", "/", "none", kernel.MS_REC | kernel.MS_PRIVATE)
    _mount_quota(WORK, limits, user)
    if own_tmp:
        kernel.mount(WORK, "/tmp", "none", kernel.MS_BIND)  # noqa: S108 - visible to this process only
    kernel.mount("tmpfs", "/proc", "tmpfs", _UNTRUSTED | kernel.MS_RDONLY, "size=4k")


def own_folder_works(folders: str, surroundings: Surroundings) -> bool:
    """Return whether a program's folder can be a mount with a quota. A forked child tries it on `folders`."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            _mount_folder(folders, Limits(), os.geteuid(), user_namespace=surroundings.first_user is None)
            status = 0
        except OSError:
            status = 1
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def _mount_folder(folder: str, limits: Limits, owner: int, *, user_namespace: bool) -> None:
    """Mount a tmpfs with a quota over `folder`, visible to this process only."""
    if user_namespace:
        kernel.own_user_namespace()
    kernel.unshare(kernel.NEW_MOUNTS)
    kernel.mount("none", "/", "none", kernel.MS_REC | kernel.MS_PRIVATE)
    _mount_quota(folder, limits, owner)


def _mount_quota(folder: str, limits: Limits, owner: int) -> None:
    quota = f"size={limits.disk_bytes},nr_inodes={limits.files + 2},mode=0700,uid={owner}"
    kernel.mount("tmpfs", folder, "tmpfs", _UNTRUSTED, quota)


def _become(user: int, files_as_root: bool) -> None:
    """Switch to another user. Root is exempt from the limit on threads and owns too many files.

    The limit is counted per real user, and file access is checked for the effective user.
    """
    effective = 0 if files_as_root else user
    with suppress(PermissionError):  # a container without CAP_SETGID
        os.setgroups([])
        os.setresgid(user, user, user)
    os.setresuid(user, effective, effective)
