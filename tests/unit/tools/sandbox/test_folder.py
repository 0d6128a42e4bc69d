import os
from pathlib import Path

import pytest

from agentflow.tools.sandbox import folder
from agentflow.tools.sandbox.limits import Limits

LIMITS = Limits(files=10, disk_bytes=1 << 20)


def test_a_few_small_files_are_within_the_limits(tmp_path: Path) -> None:
    for n in range(10):
        (tmp_path / str(n)).write_bytes(b"x" * 1000)
    assert not folder.exceeds(str(tmp_path), LIMITS)


def test_files_folders_and_links_count(tmp_path: Path) -> None:
    for n in range(4):
        (tmp_path / f"file{n}").touch()
        (tmp_path / f"folder{n}").mkdir()
        (tmp_path / f"folder{n}" / "link").symlink_to("/")
    assert folder.exceeds(str(tmp_path), LIMITS)


def test_bytes_count(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(bytes(2 << 20))
    assert folder.exceeds(str(tmp_path), LIMITS)


def test_a_folder_that_is_gone_is_within_the_limits(tmp_path: Path) -> None:
    assert not folder.exceeds(str(tmp_path / "gone"), LIMITS)


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
