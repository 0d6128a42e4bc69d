"""The closing lines of `agentflow train`, and its report."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from agentflow.cli.group import FAILED, MISUSED
from agentflow.cli.train import write_report
from agentflow.rl.rollout.rollout import RolloutStatus
from agentflow.rl.run.checkpoints import ACTOR, FOLDER, LATEST, checkpoint_of
from agentflow.rl.run.training_log import TrainingLog
from tests.command_line import call, succeeds
from tests.reports import Report
from tests.trainings import begin, rollout, write_validation

needs_training = pytest.mark.skipif(not find_spec("verl"), reason="the extra train is not installed")


@needs_training
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("right", "best"), [((0, 2, 1), True), ((0, 1, 2), False), ((0, 2, 2), False), ((2, 1, 0), False)]
)
def test_the_best_step_is_offered_where_it_is_not_the_last(
    right: tuple[int, int, int], best: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agentflow.evals.run_folder import write_settings
    from agentflow.rl import train
    from agentflow.rl.settings import TrainingSettings, compose_settings

    TrainingLog(tmp_path).rewind(0)
    write_settings(tmp_path, TrainingSettings.of(compose_settings("atlas-cpu", [f"out={tmp_path}"])))
    for step, number in zip((0, 10, 20), right, strict=True):
        if step:
            (checkpoint_of(tmp_path, step) / ACTOR).mkdir(parents=True)
        write_validation(tmp_path, step, [rollout(step, "test", f"t{one}", float(one < number)) for one in range(2)])
    (tmp_path / FOLDER / LATEST).write_text("20")
    monkeypatch.setattr(train, "train", lambda *words, **callbacks: tmp_path)
    done = succeeds("train")
    assert f"next: agentflow export {tmp_path} planner\n" in done.stdout
    assert ("--best (step 10, " in done.stdout) == best
    assert ("the start's held-out accuracy, 1.000" in done.stdout) == (right[0] > max(right[1:]))
    assert "2 held-out tasks: " in done.stdout
    lost = [rollout(30, "test", f"t{one}", 0.0, status=RolloutStatus.TIMED_OUT) for one in range(2)]
    write_validation(tmp_path, 30, lost)
    said = succeeds("train").stdout
    assert "step 30: 2 of 2 tries ran out of time" in said
    assert [text for text in ("--best", "note: ", "held-out tasks: ") if text in said] == []


@needs_training
@pytest.mark.filterwarnings("ignore")
def test_a_training_that_fails_is_one_line_and_no_misuse(monkeypatch: pytest.MonkeyPatch) -> None:
    from agentflow.rl import train

    def fails(*words: str, **callbacks: object) -> Path:
        raise train.TrainingFailed("a worker died")

    monkeypatch.setattr(train, "train", fails)
    done = call("train")
    assert (done.exit_code, len(done.stderr.splitlines())) == (FAILED, 1)
    assert "a worker died" in done.stderr


@needs_training
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("option", ["--tasks", "--test"])
def test_show_reads_the_tasks(option: str, tmp_path: Path) -> None:
    """A file that is not there was found at the start of the training alone."""
    (file := tmp_path / "tasks.jsonl").write_text('{"question": "a", "answer": "b"}')
    words = ["train", "examples.help_desk:build", "--show", "--tasks", file, "--test", file]
    assert "app: examples.help_desk:build" in succeeds(*words).stdout
    done = call(*words, option, tmp_path / "missing.jsonl")
    assert (done.exit_code, len(done.stderr.splitlines())) == (MISUSED, 1)
    assert "missing.jsonl" in done.stderr


@pytest.mark.parametrize("validations", [0, 1])
def test_a_run_that_has_just_begun_has_a_report_too(tmp_path: Path, validations: int) -> None:
    begin(tmp_path, 3)
    for step in range(validations):
        write_validation(tmp_path, step, [rollout(step, "test", f"t{n}", 0.0) for n in range(3)])
    assert len(Report(write_report(tmp_path).read_text()).rows) == validations * 3
