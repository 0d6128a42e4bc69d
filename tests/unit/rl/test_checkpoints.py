from pathlib import Path

import pytest

from agentflow.rl.checkpoints import FOLDER, LATEST, latest_step, saved_steps


def test_only_complete_names_are_checkpoints(tmp_path: Path) -> None:
    for name in ("global_step_2", "global_step_10", "global_step_x", "other"):
        (tmp_path / FOLDER / name).mkdir(parents=True)
    assert saved_steps(tmp_path) == [2, 10]


@pytest.mark.parametrize(("content", "step"), [("10", 10), ("2\n", 2), ("", None), ("ten", None), ("\x80", None)])
def test_the_latest_step_is_the_one_that_verl_recorded(content: str, step: int | None, tmp_path: Path) -> None:
    assert latest_step(tmp_path) is None
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / LATEST).write_text(content, encoding="latin-1")
    assert latest_step(tmp_path) == step
