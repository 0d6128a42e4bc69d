"""The filter, run by an interpreter of BPF in this file: so it is tested for machines that are not at hand, too."""

import errno
import platform
import struct
from collections.abc import Iterator

import pytest

from agentflow.tools.sandbox import seccomp
from agentflow.tools.sandbox.limits import SandboxError
from agentflow.tools.sandbox.syscalls import numbers
from tests.cases import table
from tests.failing import fails

ALLOWED, KILLED = "allowed", "killed"
PID = 1234
SOCKET = {"x86_64": 41, "aarch64": 198}
OPENAT = {"x86_64": 257, "aarch64": 56}
MOUNT = {"x86_64": 165, "aarch64": 40}
FUTURE = 500


@pytest.fixture(params=["x86_64", "aarch64"])
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(platform, "machine", lambda: request.param)
    seccomp._rest.cache_clear()
    yield str(request.param)
    seccomp._rest.cache_clear()


def decide(machine: str, number: int, *arguments: int, architecture: int | None = None, **options: bool) -> str:
    """Return the filter's verdict on a call."""
    program = [*struct.iter_unpack("HBBI", seccomp.program(PID, **({"keeps_metadata": False} | options)))]
    words = [number, architecture or {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}[machine], 0, 0]
    for argument in (*arguments, *[0] * (6 - len(arguments))):
        words += [argument & 0xFFFFFFFF, argument >> 32 & 0xFFFFFFFF]
    position = loaded = 0
    while True:
        code, yes, no, value = program[position]
        position += 1
        match code:
            case 0x20:
                loaded = words[value // 4]
            case 0x54:
                loaded &= value
            case 0x06:
                return _named(value)
            case _:
                truth = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}[code]
                position += yes if truth else no


def _named(result: int) -> str:
    if result == 0x7FFF0000:
        return ALLOWED
    return KILLED if result == 0x80000000 else errno.errorcode.get(result & 0xFFFF, "done")


def test_files_may_be_opened_and_sockets_not_and_calls_of_later_kernels_do_not_exist(machine: str) -> None:
    assert decide(machine, OPENAT[machine]) == ALLOWED
    assert {decide(machine, number) for number in (SOCKET[machine], MOUNT[machine])} == {"EPERM"}
    clone3, io_uring_setup = 435, 425  # the C library makes clone of the former
    assert {decide(machine, number) for number in (FUTURE, clone3, io_uring_setup)} == {"ENOSYS"}


def test_calls_of_another_machine_end_the_program(machine: str) -> None:
    assert decide(machine, OPENAT[machine], architecture=0x40000003) == KILLED
    if machine == "x86_64":
        assert decide(machine, 0x40000000 + OPENAT[machine]) == KILLED


@pytest.mark.parametrize(("name", "arguments", "decision"), table(__file__, "seccomp.txt"))
def test_of_some_calls_the_arguments_count(machine: str, name: str, arguments: list[int], decision: str) -> None:
    assert decide(machine, numbers()[name], *arguments) == decision


def test_what_landlock_does_not_govern_is_refused(machine: str) -> None:
    assert decide(machine, numbers()["fchmodat"]) == ALLOWED
    assert decide(machine, numbers()["fchmodat"], keeps_metadata=True) == "done"  # it says that it worked
    assert decide(machine, numbers()["ftruncate"]) == ALLOWED
    assert decide(machine, {"x86_64": 76, "aarch64": 45}[machine]) == "EPERM"  # truncate, by a path
    assert decide(machine, numbers()["fallocate"]) == errno.errorcode[errno.EOPNOTSUPP]  # space is taken by writing


def test_a_machine_that_the_table_does_not_cover(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with fails(SandboxError, "unknown_machine", "riscv64"):
        numbers()


def test_no_number_is_there_twice(machine: str) -> None:
    assert len(set(numbers().values())) == len(numbers()) > 120
