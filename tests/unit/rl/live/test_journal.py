"""Records of a server that learns."""

from pathlib import Path

import pytest

from agentflow.rl.live.journal import Feedback, Journal, JournalError, ServedAnswer, Traffic, VersionDecision


def answered(id: str, version: int = 0, status: str = "answered") -> ServedAnswer:
    return ServedAnswer(id=id, version=version, question=f"{id}?", answer="9", status=status, turns=1, seconds=0.5)


def test_a_journal_is_read_again_without_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "new" / "decisions.jsonl"
    first = Journal(path, VersionDecision)
    first.append(VersionDecision(version=1, outcome="trial", reason="better"))
    first.close()
    with path.open("ab") as file:
        file.write(b'{"version": 2, "outc')
    again = Journal(path, VersionDecision)
    assert [one.version for one in again.read()] == [1]
    again.append(VersionDecision(version=2, outcome="failed", reason="none"))
    again.close()
    last = Journal(path, VersionDecision)
    assert [one.version for one in last.read()] == [1, 2]
    last.close()
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("line", [b"{}\n", b"what?\n", b'{"version": 1, "outcome": "won", "reason": ""}\n'])
def test_a_line_of_another_kind_is_refused(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "decisions.jsonl").write_bytes(line)
    with pytest.raises(JournalError, match="line 1"):
        Journal(tmp_path / "decisions.jsonl", VersionDecision).read()


def test_scored_answers_are_used_once(traffic: Traffic) -> None:
    for id in ("a", "b", "c"):
        traffic.add(answered(id))
    traffic.score(Feedback(id="b", score=1))
    traffic.score(Feedback(id="a", score=0))
    traffic.score(Feedback(id="a", score=1))
    assert [(answer.id, feedback.score) for answer, feedback in traffic.unused] == [("b", 1), ("a", 1)]
    traffic.use(["a"])
    assert [answer.id for answer, _ in traffic.unused] == ["b"]


def test_a_server_that_starts_again_knows_what_was_answered_and_scored(tmp_path: Path) -> None:
    first = Traffic(tmp_path)
    for id in ("a", "b"):
        first.add(answered(id))
        first.score(Feedback(id=id, score=1, answer="10"))
    first.close()
    again = Traffic(tmp_path, used=["a"])
    assert [(answer.id, feedback.answer) for answer, feedback in again.unused] == [("b", "10")]
    again.close()


def test_only_so_many_answers_can_be_scored(traffic: Traffic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentflow.rl.live.journal.MOST_ANSWERS", 2)
    for id in ("a", "b", "c"):
        traffic.add(answered(id))
    with pytest.raises(KeyError):
        traffic.score(Feedback(id="a", score=1))
    assert list(traffic.answers) == ["b", "c"]
