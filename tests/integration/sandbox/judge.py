"""Targets of abuse programs, placed on this machine, and a judge that inspects them from outside."""

import os
import re
import select
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE
from types import TracebackType
from typing import IO

from agentflow.tools.sandbox.limits import Limits, Outcome
from tests.waiting import until

SECRET = "s3cret-of-the-host"
LIMITS = Limits(seconds=1.5, memory_bytes=256 << 20, files=200)

_SLACK_SECONDS = 15.0
"""Tolerance on a busy machine; a bomb that blocks the host takes longer."""
_SLACK_BYTES = 300 << 20
"""Memory of the interpreter and the libraries that a program loads, which the limit does not count."""
_LATE_BYTES = 512 << 20
"""Most that a program can write to a disk without a quota before the server checks, on a busy machine."""
_LATE_FILES = 10_000
"""Most that a program can create before the server checks, on a busy machine, in the tier without quotas."""


@dataclass
class Peak:
    """The most that was seen of a program while it ran, by looking at its /proc entry."""

    tasks: int = 0
    processes: int = 0
    memory: int = 0
    files: int = 0
    disk: int = 0
    """Bytes in its folder, those of deleted files included."""


@dataclass
class World:
    """A folder with a secret and a target, servers that answer nobody, and another process; all on this machine."""

    folder: Path
    mark: str = field(default_factory=lambda: f"{os.getpid()}")

    def __enter__(self) -> "World":
        self._stack = ExitStack()
        (self.folder / "secret").write_text(SECRET)
        self._target = self.folder / "target"
        self._target.write_text("untouched")
        kinds = {
            "TCP4": (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
            "TCP6": (socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0)),
            "UDP": (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
            "UNIX": (socket.AF_UNIX, socket.SOCK_STREAM, str(self.folder / "stream")),
            "DGRAM": (socket.AF_UNIX, socket.SOCK_DGRAM, str(self.folder / "dgram")),
            "ABSTRACT": (socket.AF_UNIX, socket.SOCK_STREAM, f"\0abuse-{self.mark}"),
        }
        self._sockets = {name: self._listen(*kind) for name, kind in kinds.items()}
        environment = {**os.environ, "PLANTED_API_KEY": SECRET}
        self._canary = self._stack.enter_context(
            subprocess.Popen(_CANARY, env=environment, stdin=PIPE, stdout=PIPE, bufsize=0)
        )
        self._stack.callback(self._canary.kill)
        self._signals: list[int] = []
        self._stack.callback(signal.signal, signal.SIGUSR1, signal.signal(signal.SIGUSR1, self._signalled))
        self._before = self._state()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    def _listen(self, family: int, kind: int, address: object) -> socket.socket:
        listening = self._stack.enter_context(socket.socket(family, kind))
        listening.bind(address)  # type: ignore[arg-type]
        if kind == socket.SOCK_STREAM:
            listening.listen()
        listening.setblocking(False)
        return listening

    def _signalled(self, number: int, frame: object) -> None:
        self._signals.append(number)

    def names(self) -> dict[str, str]:
        """Return the placeholders of the abuse programs."""
        ports = {name: str(self._sockets[name].getsockname()[1]) for name in ("TCP4", "TCP6", "UDP")}
        return ports | {
            "SECRET": str(self.folder / "secret"),
            "FOLDER": str(self.folder),
            "TARGET": str(self._target),
            "UNIX": str(self.folder / "stream"),
            "DGRAM": str(self.folder / "dgram"),
            "ABSTRACT": f"abuse-{self.mark}",
            "HOST": str(os.getpid()),
            "CANARY": str(self._canary.pid),
            "MARK": self.mark,
            "TASKS": "200",
        }

    def _state(self) -> dict[str, object]:
        status = self._target.stat() if self._target.exists() else None
        canary = self._canary.pid
        return {
            "files": sorted(os.listdir(self.folder)),
            "content": self._target.read_text() if status else None,
            "metadata": status and (status.st_mode, status.st_uid, status.st_mtime_ns, os.listxattr(self._target)),
            "canary": self._canary_answers(),
            "priority": self._canary.poll() is None and os.getpriority(os.PRIO_PROCESS, canary),
            "processors": self._canary.poll() is None and os.sched_getaffinity(canary),
            "limits": self._canary.poll() is None and Path(f"/proc/{canary}/limits").read_text(),
        }

    def _canary_answers(self) -> bool:
        """Return whether the canary runs. A pending signal takes effect before its answer."""
        assert self._canary.stdin
        assert self._canary.stdout
        with suppress(BrokenPipeError):
            self._canary.stdin.write(b"?")
        until(lambda: self._canary.poll() is not None or self._stopped() or _readable(self._canary.stdout))
        return _readable(self._canary.stdout) and self._canary.stdout.read(1) == b"!"

    def _stopped(self) -> bool:
        return Path(f"/proc/{self._canary.pid}/stat").read_text().rpartition(")")[2].split()[0] in "tTZX"

    def successes(self, outcome: Outcome, seconds: float, peak: Peak, started: Callable[[], set[int]]) -> list[str]:
        """Return the program's forbidden achievements; `started` are the processes since it ran."""
        printed = outcome.stdout + outcome.stderr
        after = self._state()
        found = [name for name, value in after.items() if value != self._before[name]]
        found += [f"reached {name}" for name, listening in self._sockets.items() if _reached(listening)]
        found += [f"left {path}" for path in _left_behind(f"abuse-{self.mark}")]
        limits = {
            "read the secret": SECRET in printed or str(list(SECRET.encode("ascii"))) in printed,
            "escaped": "ESCAPED" in printed,
            "signalled the host": bool(self._signals),
            "new processes": peak.processes > 1,
            "left processes": not _gone(started),
            "too many tasks": peak.tasks > LIMITS.threads + _tasks_of_the_system(),
            "too much memory": peak.memory > LIMITS.memory_bytes + _SLACK_BYTES,
            "too many files": peak.files > LIMITS.files + (1 if outcome.tier.startswith("bwrap") else _LATE_FILES),
            "too much on disk": peak.disk > LIMITS.disk_bytes,
            "too long": seconds > LIMITS.seconds + _SLACK_SECONDS,
            "too much output": len(outcome.stdout) > LIMITS.output_bytes or len(outcome.stderr) > 8192,
        }
        return found + [what for what, happened in limits.items() if happened]


_FOLDER = re.compile(r".*?/agentflow-sandbox-[^/]+/run-[^/]+")
_CANARY = [sys.executable, "-I", "-S", "-c", "import os\nwhile os.read(0, 1): os.write(1, b'!')"]
"""The other process. Without site packages it starts at once."""


def _readable(stream: IO[bytes] | None) -> bool:
    return bool(select.select([stream], [], [], 0)[0])


def _reached(listening: socket.socket) -> bool:
    try:
        if listening.type == socket.SOCK_STREAM:
            listening.accept()[0].close()
        else:
            listening.recv(100)
    except BlockingIOError:
        return False
    return True


def _left_behind(name: str) -> list[str]:
    paths = (Path(parent) / name for parent in ("/tmp", "/var/tmp", "/dev/shm", "/run", "/dev/mqueue"))
    return [str(path) for path in paths if path.exists()]


def _gone(started: Callable[[], set[int]]) -> bool:
    deadline = time.monotonic() + _SLACK_SECONDS
    while time.monotonic() < deadline and started():
        time.sleep(0.02)
    return not started()


def _tasks_of_the_system() -> int:
    """Return the number of all tasks, above which lies the limit of programs that are not users of their own."""
    return 0 if os.geteuid() == 0 else int(Path("/proc/loadavg").read_text().split()[3].split("/")[1])


def _taken(folder: str) -> int:
    """Return the bytes of a folder, however deep it is."""
    taken, pending = 0, [os.open(folder, os.O_RDONLY)]
    while pending:
        descriptor = pending.pop()
        try:
            for entry in os.scandir(descriptor):
                with suppress(FileNotFoundError):
                    taken += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(os.open(entry.name, os.O_RDONLY, dir_fd=descriptor))
        finally:
            os.close(descriptor)
    return taken


def _deleted(process: Path) -> int:
    """Return the bytes of files that are deleted and still open or mapped."""
    found = {}
    for path in (*(process / "fd").iterdir(), *(process / "map_files").iterdir()):
        with suppress(OSError):
            status = path.stat()
            if stat.S_ISREG(status.st_mode) and not status.st_nlink:
                found[status.st_ino] = status.st_blocks * 512
    return sum(found.values())


class Watch(threading.Thread):
    """Looks at the processes below this one while a program runs; `peak` is what it saw of new ones."""

    def __init__(self, started: Callable[[], set[int]]) -> None:
        super().__init__(daemon=True)
        self._new = started
        self._stop_event = threading.Event()
        self._folder = ""
        self.peak = Peak()

    def run(self) -> None:
        while not self._stop_event.wait(0.02):
            new = self._new()
            self.peak.processes = max(self.peak.processes, len(new))
            for pid in new:
                self._look(Path(f"/proc/{pid}"))

    def _look(self, process: Path) -> None:
        try:
            self.peak.tasks = max(self.peak.tasks, len(os.listdir(process / "task")))
            pages = int((process / "statm").read_text().split()[1])
            self.peak.memory = max(self.peak.memory, pages * os.sysconf("SC_PAGE_SIZE"))
            self.peak.disk = max(self.peak.disk, self._bytes_on_disk(process))
            self.peak.files = max(self.peak.files, len(os.listdir(process / "cwd")))
        except OSError:  # it has just ended, or is not ours to look at
            return

    def _bytes_on_disk(self, process: Path) -> int:
        """Return the bytes of a folder with a quota; on a shared disk, those beyond the share of the delay."""
        if os.stat(process / "cwd").st_dev != os.stat(tempfile.gettempdir()).st_dev:
            disk = os.statvfs(process / "cwd")
            return (disk.f_blocks - disk.f_bfree) * disk.f_frsize
        with suppress(OSError):  # its path is too long, but was seen before
            if found := _FOLDER.match(os.readlink(process / "cwd")):
                self._folder = found[0]
        return max(0, _taken(self._folder) + _deleted(process) - _LATE_BYTES) if self._folder else 0

    def stop(self) -> Peak:
        self._stop_event.set()
        self.join()
        return self.peak
