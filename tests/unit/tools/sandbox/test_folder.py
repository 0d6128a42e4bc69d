import mmap
import os
import tempfile
from pathlib import Path

import pytest

from agentflow.tools.sandbox import folder
from agentflow.tools.sandbox.limits import Limits

LIMITS = Limits(files=10, disk_bytes=1 << 20)


def test_files_folders_links_and_bytes_count(tmp_path: Path) -> None:
    for name in ("few", "many", "big"):
        (tmp_path / name).mkdir()
    for n in range(10):
        (tmp_path / "few" / str(n)).write_bytes(b"x" * 1000)
    for n in range(4):
        (tmp_path / "many" / f"file{n}").touch()
        (tmp_path / "many" / f"folder{n}").mkdir()
        (tmp_path / "many" / f"folder{n}" / "link").symlink_to("/")
    (tmp_path / "big" / "file").write_bytes(bytes(2 << 20))
    too_much = {name: folder.exceeds(str(tmp_path / name), LIMITS) for name in ("few", "many", "big", "gone")}
    assert too_much == {"few": False, "many": True, "big": True, "gone": False}


def test_folders_deeper_than_a_path_and_closed_ones_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path / "outside"
    outside.write_text("stays")
    monkeypatch.chdir(tmp_path)
    made = folder.create(str(tmp_path), None)
    os.chdir(made)
    for _ in range(100):
        os.mkdir("x" * 100)
        os.symlink(outside, "link")
        os.chdir("x" * 100)
    os.mkdir("closed", 0)
    os.chdir(tmp_path)
    folder.remove(made)
    assert sorted(os.listdir(tmp_path)) == ["outside"]
    assert outside.read_text() == "stays"


def test_folders_deeper_than_is_looked_at_are_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of 250 characters made paths that were too long to be looked at."""
    monkeypatch.chdir(tmp_path)
    for _ in range(100):
        os.mkdir("x" * 250)
        os.chdir("x" * 250)
    os.chdir("/")
    assert folder.exceeds(str(tmp_path), Limits())


def test_what_is_deleted_and_still_held_counts(tmp_path: Path) -> None:
    # Half a file more than the first one counts for: pytest itself holds deleted files, what it captures.
    limits = Limits(disk_bytes=7 << 19, file_bytes=1 << 20)
    held = []
    for number in range(5):
        with (tmp_path / str(number)).open("w+b") as file:
            os.unlink(file.name)
            os.posix_fallocate(file.fileno(), 0, 1 << 20)
            held.append(os.dup(file.fileno()) if number % 2 else mmap.mmap(file.fileno(), mmap.PAGESIZE))
        assert number or not folder.hides(os.getpid(), str(tmp_path), limits)
    assert folder.hides(os.getpid(), str(tmp_path), limits)
    for one in held:
        os.close(one) if isinstance(one, int) else one.close()
    assert not folder.hides(os.getpid(), str(tmp_path), limits)


def test_folders_of_hosts_that_were_killed_are_removed_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ours, lock = folder.claim()
    abandoned, let_go = folder.claim()
    os.close(let_go)
    (Path(abandoned) / "left").write_text("x")
    monkeypatch.setattr(folder, "_NEW_SECONDS", -1.0)
    fresh, other_lock = folder.claim()
    assert sorted(map(str, tmp_path.iterdir())) == sorted([ours, fresh])
    os.close(lock)
    os.close(other_lock)
