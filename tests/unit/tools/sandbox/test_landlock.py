import errno
import os

import pytest

from agentflow.tools.sandbox import landlock


def _fails(number: int) -> object:
    def opens(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    return opens


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_a_path_is_not_left_out_for_want_of_a_descriptor(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program would get a PermissionError from its own folder, and be blamed for it."""
    monkeypatch.setattr(os, "open", _fails(number))
    with pytest.raises(OSError, match=rf"\[Errno {number}\]"):
        landlock._allow(0, "/tmp", 0)


@pytest.mark.parametrize("number", [errno.ENOENT, errno.ENOTDIR, errno.EACCES])
def test_a_path_that_is_not_there_is_passed_over(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "open", _fails(number))
    landlock._allow(0, "/tmp", 0)
