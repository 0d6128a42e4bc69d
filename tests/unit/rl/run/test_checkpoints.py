"""Which steps a run has and keeps, and two trainings on one folder."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("hydra")

from agentflow.rl.run import checkpoints
from agentflow.rl.run.checkpoints import (
    ACTOR,
    BEST,
    FOLDER,
    LATEST,
    best_checkpoint,
    best_step,
    checkpoint_of,
    keep_best,
    latest_step,
    run_lock,
    saved_steps,
)
from agentflow.rl.settings import SettingsError
from tests.command_line import call
from tests.failing import fails

WEIGHTS, OPTIMISER = "actor/planner/model_world_size_1_rank_0.pt", "actor/planner/optim_world_size_1_rank_0.pt"


def save(run: Path, step: int, keep: int = 2) -> None:
    """Save as verl does, which deletes the weights of the oldest checkpoints, and leaves their folders."""
    for name in (WEIGHTS, OPTIMISER):
        path = checkpoint_of(run, step) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"step {step}")
    for old in saved_steps(run)[:-keep]:
        shutil.rmtree(checkpoint_of(run, old) / ACTOR, ignore_errors=True)
    (run / FOLDER / LATEST).write_text(str(step))


def content(run: Path, accuracies: dict[int, float]) -> str:
    """The weights of the best step."""
    found = best_checkpoint(run, accuracies)
    assert found is not None
    return (found / WEIGHTS).read_text()


@pytest.mark.parametrize(("content", "step"), [("10", 10), ("2\n", 2), ("", None), ("ten", None), ("\x80", None)])
def test_the_latest_step_is_the_one_that_verl_recorded(content: str, step: int | None, tmp_path: Path) -> None:
    assert latest_step(tmp_path) is None
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / LATEST).write_text(content, encoding="latin-1")
    assert latest_step(tmp_path) == step


@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from([0.1, 0.2, 0.3, 0.4])), min_size=1, max_size=8),
    st.integers(1, 3),
)
def test_the_best_of_the_saved_and_validated_steps_is_never_lost(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[bool, float]], keep: int
) -> None:
    run, accuracies = tmp_path_factory.mktemp("run"), {0: 0.9}
    for step, (saves, accuracy) in enumerate(steps, 1):
        if saves:
            save(run, step, keep)
        accuracies[step] = accuracy
        keep_best(run, accuracies)
    saved = [step for step, (saves, _) in enumerate(steps, 1) if saves]
    expected = max(saved, key=lambda step: (accuracies[step], step), default=None)
    assert best_step(run, accuracies) == expected
    assert saved_steps(run, BEST) == saved_steps(run, BEST)[:1] == ([expected] if expected else [])
    if expected:
        assert content(run, accuracies) == f"step {expected}"
    else:
        assert best_checkpoint(run, accuracies) is None


@pytest.mark.parametrize("links", [True, False])
def test_weights_alone_are_kept_as_links_or_as_copies(
    links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the optimiser's state; a link takes no space."""

    def refuse(*_: Any) -> None:
        raise PermissionError("no links here")

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    save(tmp_path, 1)
    keep_best(tmp_path, {1: 0.5})
    kept = checkpoint_of(tmp_path, 1, BEST)
    assert [str(path.relative_to(kept)) for path in kept.rglob("*.pt")] == [WEIGHTS]
    assert (kept / WEIGHTS).samefile(checkpoint_of(tmp_path, 1) / WEIGHTS) == links
    assert content(tmp_path, {1: 0.5}) == "step 1"


def test_a_run_that_resumes_earlier_forgets_the_best_of_later_steps(tmp_path: Path) -> None:
    """verl would write into the files of the step's checkpoint again, which are those of the best."""
    for step in (1, 2):
        save(tmp_path, step)
        keep_best(tmp_path, {1: 0.5, 2: 0.6})
    (tmp_path / FOLDER / LATEST).write_text("1")
    keep_best(tmp_path, {1: 0.5})
    assert saved_steps(tmp_path, BEST) == [1]
    save(tmp_path, 2)
    assert content(tmp_path, {1: 0.5}) == "step 1"


@pytest.mark.parametrize(("latest", "best"), [("3", 2), ("2", 2), ("1", None)])
def test_a_checkpoint_without_its_weights_or_not_complete_is_not_the_best(
    latest: str, best: int | None, tmp_path: Path
) -> None:
    """Runs of older versions have no best/, and verl has deleted the weights of step 1."""
    for step in (1, 2, 3):
        save(tmp_path, step)
    (tmp_path / FOLDER / LATEST).write_text(latest)
    assert best_step(tmp_path, {1: 0.6, 2: 0.4, 3: 0.3 if latest == "3" else 0.9}) == best


def test_what_a_killed_process_left_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, 1)

    def killed(source: str, target: str) -> None:
        Path(target).write_text("torn")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "_link", killed)
        with pytest.raises(KeyboardInterrupt):
            keep_best(tmp_path, {1: 0.5})
    assert saved_steps(tmp_path, BEST) == []
    keep_best(tmp_path, {1: 0.5})
    assert content(tmp_path, {1: 0.5}) == "step 1"


HOLDER = (Path(__file__).parent / "cases/holder.py.txt").read_text()


def test_the_second_is_refused_at_once_by_any_name_and_told_who_holds_the_folder(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "run")
    with run_lock(tmp_path / "run"), run_lock(tmp_path / "another"):
        for name in ("run", "link"):
            with fails(SettingsError, "locked", tmp_path / name, os.getpid()), run_lock(tmp_path / name):
                pass


@pytest.mark.process
def test_a_folder_is_free_when_its_training_ends_or_is_killed(tmp_path: Path) -> None:
    with run_lock(tmp_path):
        pass
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with fails(SettingsError, "locked", holder.pid), run_lock(tmp_path):
            pass
        holder.kill()
    with run_lock(tmp_path):
        pass


@pytest.mark.process
def test_a_training_command_is_refused_before_it_writes_anything(tmp_path: Path) -> None:
    pytest.importorskip("verl")
    with run_lock(tmp_path / "run"):
        done = call("train", f"out={tmp_path / 'run'}", "steps=1")
    assert done.exit_code == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert str(os.getpid()) in done.stderr
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["train.lock"]
