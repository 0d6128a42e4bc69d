"""A real PostgreSQL server of one test run: Debian's, in a temporary folder, on a free port of the loopback."""

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.ports import free_port

SECONDS = 120


def binaries() -> Path | None:
    """The folder of initdb and pg_ctl, None where PostgreSQL is not installed."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    return max(Path("/usr/lib/postgresql").glob("*/bin"), default=None, key=lambda path: int(path.parent.name))


def unprivileged() -> list[str] | None:
    """Command prefix that drops root, which PostgreSQL refuses; None if that is impossible."""
    if os.geteuid() != 0:
        return []
    if not shutil.which("setpriv") or "postgres" not in {user.pw_name for user in pwd.getpwall()}:
        return None
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]


def missing() -> str:
    """Reason why there is no server here; empty if there is one."""
    if binaries() is None:
        return "PostgreSQL is not installed (apt-get install postgresql)"
    return "" if unprivileged() is not None else "PostgreSQL does not run as root, and there is no user postgres"


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """The URL of a server with an empty database, which is stopped afterwards."""
    home, user, data = binaries(), unprivileged(), folder / "data"
    assert home is not None
    assert user is not None
    folder.mkdir(mode=0o700)
    if user:
        shutil.chown(folder, "postgres")
    password = folder / "password"
    password.write_text("s3cr3t-of-the-test")
    if user:
        shutil.chown(password, "postgres")
    port = free_port()
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder}"
    scram = ["--auth=scram-sha-256", "--username=agent", f"--pwfile={password}", "--locale=C.UTF-8"]
    _run([*user, str(home / "initdb"), "--pgdata", str(data), *scram], folder)
    control = [*user, str(home / "pg_ctl"), "--pgdata", str(data), "--wait", f"--timeout={SECONDS}"]
    log = str(folder / "log")
    _run([*control, "--options", options, "--log", log, "start"], folder)
    try:
        yield f"postgres://agent:s3cr3t-of-the-test@127.0.0.1:{port}/postgres"
    finally:
        _run([*control, "--mode=immediate", "stop"], folder)


def _run(command: list[str], folder: Path) -> None:
    # In a file: a server that stays would keep a pipe open.
    said = folder.parent / f"{folder.name}.said"
    with said.open("w") as file:
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=file, stderr=file, timeout=SECONDS, check=False
        )
    assert done.returncode == 0, said.read_text()
