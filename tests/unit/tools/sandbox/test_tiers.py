import errno
import os
import sys
from contextlib import nullcontext

import pytest

from agentflow.tools.sandbox import kernel, landlock, libraries, tiers
from tests.cases import table


@pytest.fixture(autouse=True)
def no_word_of_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(tiers.VARIABLE, raising=False)


@pytest.mark.parametrize(("platform", "user", "capabilities", "candidates"), table(__file__, "tiers.txt"))
def test_the_strongest_comes_first_and_linux_never_goes_without(
    platform: str, user: int, capabilities: int | None, candidates: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(kernel, "capabilities", lambda: capabilities)
    assert tiers.candidates() == candidates


@pytest.mark.skipif(sys.platform != "linux", reason="capabilities are Linux's")
def test_root_without_its_rights_runs_programs_as_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the capability to use other users, as below `apart` and in some containers."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(kernel, "capabilities", lambda: 0x1FFFFFFFFFF)
    assert tiers.surroundings("landlock", "/tmp").first_user
    monkeypatch.setattr(kernel, "capabilities", lambda: 0x1FFFFFFFFFF & ~(1 << 7))
    assert tiers.surroundings("landlock", "/tmp").first_user is None


@pytest.mark.parametrize("name", tiers.DESCRIPTIONS)
def test_the_operators_word_is_final(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(tiers.VARIABLE, name)
    assert tiers.candidates() == [name]


@pytest.mark.parametrize(("code", "names"), table(__file__, "mentions.txt"))
def test_what_a_program_mentions_is_loaded_ahead(code: str, names: list[str]) -> None:
    assert libraries.mentioned(code) == names


def test_only_what_is_on_the_list_is_loaded() -> None:
    sys.modules.pop("this", None)
    libraries.load(["this", "math", "no.such.module"])
    assert "this" not in sys.modules


PASSED_OVER = (errno.ENOENT, errno.ENOTDIR, errno.EACCES)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, *PASSED_OVER])
def test_a_path_that_is_not_there_is_passed_over_but_none_for_want_of_a_descriptor(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program would get a PermissionError from its own folder, and be blamed for it."""

    def fails(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", fails)
    with nullcontext() if number in PASSED_OVER else pytest.raises(OSError, match=rf"\[Errno {number}\]"):
        landlock._allow(0, "/tmp", 0)
