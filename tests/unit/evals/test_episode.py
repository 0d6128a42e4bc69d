"""The episode's line: complete, safe to append, without secrets."""

from pathlib import Path

import pytest

from agentflow.evals.episode import Episode, append, to_line


def test_a_line_reads_back_as_the_episode() -> None:
    episode = Episode(question="q\nü \x1b", answer="a", status="answered", seconds=1.5)
    assert "\n" not in to_line(episode)
    assert Episode.model_validate_json(to_line(episode)) == episode
    assert "error" not in episode.model_dump()


def test_a_failed_episode_says_why() -> None:
    assert Episode(question="q", status="failed", error="down").model_dump()["error"] == "down"


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "HF_TOKEN", "DB_PASSWORD", "MY_SECRET"])
def test_secrets_of_the_environment_are_struck_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, 'top"secret-value')
    line = to_line(Episode(question="q", answer='it is top"secret-value.', status="answered"))
    assert Episode.model_validate_json(line).answer == "it is ***."


def test_short_values_are_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "EMPTY")
    assert "EMPTY" in to_line(Episode(question="EMPTY", status="failed"))


def test_appending_after_a_torn_line_starts_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text('{"torn')
    episode = Episode(question="q", status="answered")
    append(path, episode)
    append(path, episode)
    assert path.read_text() == '{"torn\n' + f"{to_line(episode)}\n" * 2
