import pytest

from agentflow.tools.sandbox.limits import Outcome, SandboxError
from benchmarks import sandbox


def test_failures_under_load_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "AT_ONCE", (1, 2))

    def run(code: str) -> Outcome:
        raise SandboxError("the fork server ended")

    assert sandbox.report_load("a tier", run, rounds=2) == 2 * (1 + 2) * len(sandbox.OVERLAPPING)


def test_the_exit_status_tells_of_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["sandbox", sandbox.tiers.SUBPROCESS, "--repeats", "1"])
    monkeypatch.setattr(sandbox.os, "sched_setaffinity", lambda *_: None)
    monkeypatch.setattr(sandbox, "report", lambda *_: None)
    for failures, status in ((0, 0), (3, 1)):
        monkeypatch.setattr(sandbox, "report_load", lambda *_, found=failures: found)
        assert sandbox.main() == status
