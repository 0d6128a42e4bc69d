"""Real servers for the search tools, from Debian's packages: MediaWiki, nginx and kiwix-serve.

They are installed where that can be done (apt-get, as root), and run as ordinary processes on ports of loopback, with
all that they write in a temporary folder. Services that a package would start by itself are kept from it.
"""

import contextlib
import os
import shutil
import signal
import struct
import subprocess
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.ports import free_port
from tests.waiting import LAST_RESORT

PACKAGES = {
    "nginx": "/usr/sbin/nginx",
    "mediawiki": "/usr/share/mediawiki/api.php",
    "php-cli": "/usr/bin/php",
    "php-cgi": "/usr/bin/php-cgi",  # named, so that php does not bring Apache with it
    "php-sqlite3": "/usr/share/php8.2-sqlite3/sqlite3/pdo_sqlite.ini",
    "kiwix-tools": "/usr/bin/kiwix-serve",
    "zim-tools": "/usr/bin/zimwriterfs",
    "debian-reference-en": "/usr/share/debian-reference/index.en.html",
}
"""A file of each package, which shows that it is installed."""
POLICY = Path("/usr/sbin/policy-rc.d")
WIKI = Path("/usr/share/mediawiki")
DOCUMENTS = Path("/usr/share/debian-reference")


def install() -> None:
    """Installs what is missing; skips the test, and says why, where that cannot be done."""
    missing = [name for name, file in PACKAGES.items() if not Path(file).exists()]
    if not missing:
        return
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        pytest.skip(f"needs Debian's {', '.join(missing)}, and apt-get as root to install them")
    with _no_service_starts():
        for command in (["update", "-q"], ["install", "-y", "-q", "--no-install-recommends", *missing]):
            done = subprocess.run(
                ["apt-get", *command],
                env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
                capture_output=True,
                text=True,
                timeout=900,
                check=False,
            )
            if done.returncode:
                pytest.skip(f"apt-get {command[0]} failed: {done.stderr.strip().splitlines()[-1:]}")


@contextlib.contextmanager
def _no_service_starts() -> Iterator[None]:
    """Debian asks this file whether a service may be started; it is left as it was."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink()


@contextlib.contextmanager
def running(command: list[str], url: str, folder: Path, **environment: str) -> Iterator[str]:
    """The server of `command` at `url`, once it answers; ended with all of its processes."""
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**os.environ, **environment},
            start_new_session=True,
        )
    try:
        _wait(url, process, folder)
        yield url
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)


def _wait(url: str, process: "subprocess.Popen[bytes]", folder: Path) -> None:
    for _ in range(300):
        with contextlib.suppress(httpx.TransportError):
            httpx.get(url, timeout=LAST_RESORT, trust_env=False)
            return
        if process.poll() is not None:
            break
        time.sleep(0.2)
    raise RuntimeError(f"no server at {url}: {(folder / 'server.log').read_text()[-2000:]}")


@contextlib.contextmanager
def mediawiki(folder: Path, pages: dict[str, str]) -> Iterator[str]:
    """MediaWiki on SQLite with these pages (wikitext by title); the address of its api.php."""
    for name in ("data", "settings", "pages"):
        (folder / name).mkdir()
    settings = folder / "settings" / "LocalSettings.php"
    port = free_port()
    _php(
        *("install.php", "--dbtype", "sqlite", "--dbpath", str(folder / "data"), "--confpath", str(settings.parent)),
        *("--pass", "only-for-this-test-4711", "--server", f"http://127.0.0.1:{port}", "--scriptpath", ""),
        *("Test wiki", "Admin"),
    )
    with settings.open("a") as file:
        file.write("\nwfLoadExtension('TextExtracts');\n")
    for title, text in pages.items():
        (folder / "pages" / title).write_text(text)
    files = [str(folder / "pages" / title) for title in pages]
    _php("importTextFiles.php", "--conf", str(settings), "--overwrite", *files)
    _php("rebuildtextindex.php", "--conf", str(settings))
    router = folder / "router.php"
    router.write_text(f"<?php\ndefine('MW_CONFIG_FILE', '{settings}');\nchdir('{WIKI}');\nrequire '{WIKI}/api.php';\n")
    url = f"http://127.0.0.1:{port}/api.php"
    with running(["php", "-S", f"127.0.0.1:{port}", str(router)], url, folder, PHP_CLI_SERVER_WORKERS="4"):
        yield url


def _php(script: str, *arguments: str) -> None:
    command = ["php", str(WIKI / "maintenance" / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise RuntimeError(f"{script}: {done.stdout[-1000:]}{done.stderr[-1000:]}")


NGINX = """
daemon off; master_process off; pid {folder}/nginx.pid; error_log stderr;
events {{}}
http {{
  types {{ text/html html; text/plain txt; application/pdf pdf; image/png png; }}
  default_type application/octet-stream; charset utf-8; gzip on; gzip_min_length 1; access_log {folder}/access.log;
  client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder}; uwsgi_temp_path {folder};
  scgi_temp_path {folder};
  limit_req_zone $binary_remote_addr zone=slow:1m rate=2r/s;
  server {{
    listen 127.0.0.1:{port};
    root {documents};
    location = /robots.txt {{ return 200 "User-agent: *\\nDisallow: /forbidden\\n"; }}
    location /inside {{ return 302 http://127.0.0.1:{closed}/; }}
    location /metadata {{ return 302 http://169.254.169.254/latest/meta-data/; }}
    location /loop {{ return 302 /loop; }}
    location /moved {{ return 301 /ch05.en.html; }}
    location /denied {{ return 403; }}
    location /limited/ {{ limit_req zone=slow; limit_req_status 429; alias {documents}/; }}
    location /large {{ root {folder}; }}
  }}
}}
"""


@contextlib.contextmanager
def nginx(folder: Path) -> Iterator[str]:
    """nginx with the Debian Reference, and some addresses that misbehave; the address of its root."""
    port, closed = free_port(), free_port()
    (folder / "large.txt").write_bytes(b"many words " * 10_000_000)
    text = NGINX.format(folder=folder, port=port, closed=closed, documents=DOCUMENTS)
    (folder / "nginx.conf").write_text(text)
    command = ["/usr/sbin/nginx", "-p", str(folder), "-e", "stderr", "-c", str(folder / "nginx.conf")]
    with running(command, f"http://127.0.0.1:{port}/", folder) as url:
        yield url.rstrip("/")


def zim_archive(folder: Path) -> Path:
    """The Debian Reference as a ZIM archive with Kiwix's full-text index."""
    pages = folder / "pages"
    pages.mkdir()
    for page in DOCUMENTS.glob("*.en.html"):
        shutil.copy(page, pages / page.name)
    (pages / "icon.png").write_bytes(_white_square(48))
    about = ("-l", "eng", "-t", "Debian Reference", "-d", "Documentation", "-c", "Debian", "-p", "Tests")
    command = ["zimwriterfs", "-w", "index.en.html", "-I", "icon.png", *about, str(pages), str(folder / "docs.zim")]
    subprocess.run(command, capture_output=True, timeout=300, check=True)
    return folder / "docs.zim"


def _white_square(size: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", size, size, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\xff" * size) * size)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@contextlib.contextmanager
def kiwix(folder: Path, archive: Path) -> Iterator[str]:
    """kiwix-serve with an archive; the address of its root."""
    port = free_port()
    command = ["kiwix-serve", "-i", "127.0.0.1", "-p", str(port), str(archive)]
    with running(command, f"http://127.0.0.1:{port}/", folder) as url:
        yield url.rstrip("/")
