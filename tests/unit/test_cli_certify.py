"""`agentflow certify` and `agentflow verify`: exit codes, what is printed, and whom a replay trusts."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("hydra")
pytest.importorskip("verl")
pytest.importorskip("cryptography")

from agentflow.cli import app
from agentflow.rl.certificate import replay as replaying
from agentflow.rl.certificate.replay import Replayed, ReplayedStep, WeightDistance
from tests.unit.rl.certificate.runs import write_run


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("platformdirs.user_config_dir", lambda name: str(tmp_path / "config" / name))
    return write_run(tmp_path)


def call(*words: object, code: int = 0) -> Any:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == code, done.output
    return done


def certified(run: Path, *options: object) -> tuple[Path, str]:
    """Certify the run; returns the certificate's path and the fingerprint of its key."""
    found = json.loads(call("certify", run, "--json", *options).stdout)
    return Path(found["certificate"]), found["key"]


def test_an_honest_run_is_verified(run: Path, tmp_path: Path) -> None:
    path, key = certified(run)
    assert "verified: 1 step" in call("verify", path).stdout
    moved = path.rename(tmp_path / "c.json")
    found = json.loads(call("verify", moved, "--run", run, "--key", key.upper(), "--json").stdout)
    assert (found["verified"], found["differs"], found["key"]) == (True, [], key)


def test_certifying_again_gives_the_same_file(run: Path, tmp_path: Path) -> None:
    path, _ = certified(run)
    again, _ = certified(run, "--out", tmp_path / "again.json")
    assert again.read_bytes() == path.read_bytes()


def test_an_altered_run_is_not_verified(run: Path) -> None:
    path, _ = certified(run)
    (run / "tasks/test.jsonl").write_text("")
    done = call("verify", path, "--steps", "1", code=1)
    assert "data: test.jsonl" in done.stdout
    assert "no step was replayed" in done.stderr
    assert json.loads(call("verify", path, "--json", code=1).stdout)["differs"] == ["data: test.jsonl"]


def test_an_altered_certificate_is_not_verified(run: Path) -> None:
    path, _ = certified(run)
    path.write_text(path.read_text().replace('"preset":"atlas-cpu"', '"preset":"atlas-gpu"'))
    assert "signature" in call("verify", path, code=1).stdout


def test_the_certificate_of_another_signer_is_not_verified(run: Path, tmp_path: Path) -> None:
    _, key = certified(run)
    path, other = certified(run, "--key", tmp_path / "other.pem")
    assert other != key
    found = json.loads(call("verify", path, "--key", key, "--json", code=1).stdout)
    assert [other in difference and key in difference for difference in found["differs"]] == [True]


def test_a_key_that_is_no_fingerprint_is_bad_input(run: Path) -> None:
    """It was reported as another signer's."""
    path, key = certified(run)
    for wrong in (key[1:], f"{key}0", "FI5kbx+RVQ+DOyoSKMkmXWgrDJld8q702I+kw79vUJE="):
        assert wrong in call("verify", path, "--key", wrong, code=2).stderr


def test_without_a_run_it_says_what_was_not_checked(run: Path, tmp_path: Path) -> None:
    path, _ = certified(run, "--out", tmp_path / "c.json")
    assert "--run" in call("verify", path).stderr
    assert "--run" in call("verify", path, "--steps", "1", code=2).stderr


@pytest.mark.parametrize("steps", ["x", "1,", "-1", "²", "1 2"])
def test_steps_that_are_no_numbers_are_a_wrong_call(run: Path, steps: str) -> None:
    path, _ = certified(run)
    call("verify", path, f"--steps={steps}", code=2)


@pytest.fixture
def replays(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The segments that were replayed; the second one with another batch."""
    made: list[Any] = []

    def replay(run: Path, contents: Any, segment: Any, **options: Any) -> Replayed:
        made.append(segment)
        options["on_line"]({})
        step = ReplayedStep(segment.end, len(made) == 1, {"kl": (0.1, 0.1)})
        return Replayed(segment, [], [], True, [step], WeightDistance(0.0, 0.0))

    monkeypatch.setattr(replaying, "replay", replay)
    return made


def test_a_step_is_replayed_of_the_users_own_certificate(run: Path, replays: list[Any]) -> None:
    path, _ = certified(run)
    done = call("verify", path, "--steps", "1")
    assert replays == [(0, 1)]
    assert "step 1 replayed: the same batch" in done.stdout
    assert "1 replayed" in done.stdout


def test_a_step_that_differs_is_named(run: Path, replays: list[Any]) -> None:
    path, _ = certified(run)
    call("verify", path, "--steps", "1")
    assert "step 1 replayed: batch" in call("verify", path, "--steps", "1", code=1).stdout


def test_nothing_of_an_unknown_signer_is_run(run: Path, replays: list[Any], tmp_path: Path) -> None:
    path, key = certified(run, "--key", tmp_path / "other.pem")
    assert "--key" in call("verify", path, "--steps", "1", code=2).stderr
    assert replays == []
    call("verify", path, "--steps", "1", "--key", key)
    assert replays == [(0, 1)]


def test_a_run_whose_training_goes_on_is_not_certified(run: Path) -> None:
    from agentflow.rl.run_lock import run_lock

    with run_lock(run):
        call("certify", run, code=2)


def test_a_certificate_that_cannot_be_written_is_said(run: Path, tmp_path: Path) -> None:
    assert "no/c.json" in call("certify", run, "--out", tmp_path / "no/c.json", code=2).stderr
