"""Starts of a run, recorded in its folder."""

from pathlib import Path

import pytest

pytest.importorskip("hydra")
pytest.importorskip("torch")

from omegaconf import OmegaConf

from agentflow.rl.run_starts import OWN, STARTS, StartsError, code_of, read_starts, record_start, start_of
from agentflow.tools.named_object import named_object
from tests.failing import fails

CONFIG = OmegaConf.create(
    {"app": "agentflow.rl.planner:atlas", "trainer": {"device": "cpu"}, "lr": 0.1, "actor": {"lr": "${lr}"}}
)


def test_a_start_has_what_the_run_computes_with(tmp_path: Path) -> None:
    record_start(tmp_path, CONFIG, 3)
    [start] = read_starts(tmp_path)
    assert start.kernels.threads == 3
    assert start.config["actor"] == {"lr": "${lr}"}, "interpolations stay, so that a setting can be changed"
    assert set(start.code) == {OWN}
    assert "torch" in start.versions


def test_each_start_holds_for_the_steps_after_its_own(tmp_path: Path) -> None:
    record_start(tmp_path, CONFIG, 1)
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints/latest_checkpointed_iteration.txt").write_text("10")
    record_start(tmp_path, CONFIG, 2)
    starts = read_starts(tmp_path)
    assert [start.step for start in starts] == [0, 10]
    assert [start_of(starts, step).kernels.threads for step in (1, 10, 11, 20)] == [1, 1, 2, 2]


def test_a_torn_line_is_no_start(tmp_path: Path) -> None:
    record_start(tmp_path, CONFIG, 1)
    with (tmp_path / STARTS).open("a") as file:
        file.write('{"at": "')
    record_start(tmp_path, CONFIG, 2)
    assert [start.kernels.threads for start in read_starts(tmp_path)] == [1, 2]


@pytest.mark.parametrize("content", ["", "{}\n", "\xff"])
def test_a_file_without_the_first_start_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / STARTS).write_text(content)
    with fails(StartsError, "bad_starts", tmp_path / STARTS):
        read_starts(tmp_path)


def test_a_folder_without_starts_is_refused(tmp_path: Path) -> None:
    with fails(StartsError, "no_starts", STARTS):
        read_starts(tmp_path)


def test_the_module_of_an_app_is_code_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "certified_app.py"
    module.write_text("agent = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    named_object("certified_app:agent")
    before = code_of("certified_app:agent")
    module.write_text("agent = 2\n")
    after = code_of("certified_app:agent")
    assert before["certified_app"] != after["certified_app"]
    assert before[OWN] == after[OWN]
