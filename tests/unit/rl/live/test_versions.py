"""Versions of a planner that learns."""

from pathlib import Path
from typing import Any

import pytest

from agentflow.rl.live.journal import VersionDecision
from agentflow.rl.live.versions import Versions, loses


def decided(version: int, outcome: Any) -> VersionDecision:
    return VersionDecision(version=version, outcome=outcome, reason="")


@pytest.mark.parametrize(("outcome", "current"), [("promoted", 1), ("rejected", 0), ("failed", 0), ("trial", 0)])
def test_a_version_answers_once_it_is_promoted(versions: Versions, outcome: str, current: int) -> None:
    assert (versions.current, versions.next, versions.promoted) == (0, 1, [])
    versions.decide(decided(1, outcome))
    assert (versions.current, versions.next) == (current, 2)


def test_a_decision_is_on_the_disk_before_it_takes_effect(tmp_path: Path) -> None:
    seen: list[str] = []
    versions = Versions(tmp_path, lambda decision: seen.append((tmp_path / "decisions.jsonl").read_text()))
    versions.decide(decided(1, "promoted"))
    assert '"outcome":"promoted"' in seen[0]
    versions.close()
    again = Versions(tmp_path, lambda decision: None)
    assert again.current == 1
    again.close()


@pytest.mark.parametrize(
    ("lost", "won", "expected"),
    [(0, 0, False), (1, 0, False), (2, 0, True), (3, 1, False), (4, 1, True), (0, 9, False)],
)
def test_a_version_loses_by_more_than_chance(lost: int, won: int, expected: bool) -> None:
    old = {f"{task}": task < 20 for task in range(40)}
    new = {f"{task}": (lost <= task < 20) or (20 <= task < 20 + won) for task in range(40)}
    assert loses(new, old) is expected
