"""Versions of a planner that learns, and the outcome of a trial."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.rl.live.journal import VersionDecision
from agentflow.rl.live.versions import FEWEST, Versions, loses, most_gain, verdict

REWARDS = st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=FEWEST, max_size=60)


def decided(version: int, outcome: Any) -> VersionDecision:
    return VersionDecision(version=version, outcome=outcome, reason="")


@pytest.fixture
def versions(tmp_path: Path) -> Iterator[Versions]:
    found = Versions(tmp_path, 0.25, lambda decision: None)
    yield found
    found.close()


def test_a_version_goes_on_trial_and_is_promoted(versions: Versions) -> None:
    assert (versions.current, versions.trial, versions.next, versions.promoted) == (0, None, 1, [])
    assert versions.choose(lambda: 0.0) == 0
    versions.decide(decided(1, "trial"))
    assert (versions.current, versions.next) == (0, 1)
    assert [versions.choose(lambda chance=chance: chance) for chance in (0.0, 0.24, 0.25, 0.9)] == [1, 1, 0, 0]  # type: ignore[misc]
    versions.decide(decided(1, "promoted"))
    assert (versions.current, versions.trial, versions.next, versions.promoted) == (1, None, 2, [1])
    assert versions.choose(lambda: 0.0) == 1


@pytest.mark.parametrize("outcome", ["rolled_back", "rejected", "failed"])
def test_a_version_that_lost_answers_nothing(versions: Versions, outcome: str) -> None:
    versions.decide(decided(1, "trial"))
    versions.decide(decided(1, outcome))
    assert (versions.current, versions.trial, versions.next, versions.promoted) == (0, None, 2, [])
    assert versions.choose(lambda: 0.0) == 0


def test_a_decision_is_on_the_disk_before_it_takes_effect(tmp_path: Path) -> None:
    seen: list[str] = []
    versions = Versions(tmp_path, 0.2, lambda decision: seen.append((tmp_path / "decisions.jsonl").read_text()))
    versions.decide(decided(1, "trial"))
    assert '"outcome":"trial"' in seen[0]
    versions.close()
    again = Versions(tmp_path, 0.2, lambda decision: None)
    assert again.trial
    assert again.trial.version == 1
    again.close()


@pytest.mark.parametrize(
    ("trial", "current", "outcome"),
    [
        ([0.0] * 7, [1.0] * 50, None),
        ([0.0] * 8, [1.0] * 8, "rolled_back"),
        ([0.0] * 8, [1.0] * 7, None),
        ([1.0, 0.0] * 10, [1.0, 0.0] * 10, "promoted"),
        ([1.0] * 19, [0.0] * 50, None),
        ([1.0] * 20, [0.0] * 50, "promoted"),
        ([1.0] * 20, [0.0] * 7, None),
        ([0.0] * 12 + [1.0] * 8, [1.0] * 100, "rolled_back"),
    ],
)
def test_the_outcome_of_a_trial(trial: list[float], current: list[float], outcome: str | None) -> None:
    assert verdict(trial, current, 20) == outcome


def test_the_interval_of_a_difference_is_newcombes() -> None:
    """Table II of his paper, example (a): 56 of 70 and 48 of 80 have the upper limit 0.3339."""
    assert most_gain([1.0] * 56 + [0.0] * 14, [1.0] * 48 + [0.0] * 32) == pytest.approx(0.3339, abs=1e-4)


@given(REWARDS, REWARDS)
def test_a_version_that_is_no_worse_is_never_rolled_back(new: list[float], old: list[float]) -> None:
    if sum(new) / len(new) >= sum(old) / len(old):
        assert verdict(new, old, 20) != "rolled_back"


@pytest.mark.parametrize(
    ("lost", "won", "expected"),
    [(0, 0, False), (1, 0, False), (2, 0, True), (3, 1, False), (4, 1, True), (0, 9, False)],
)
def test_a_version_loses_by_more_than_chance(lost: int, won: int, expected: bool) -> None:
    old = {f"{task}": task < 20 for task in range(40)}
    new = {f"{task}": (lost <= task < 20) or (20 <= task < 20 + won) for task in range(40)}
    assert loses(new, old) is expected
