"""The first file of a folder decides its reader."""

import json
from pathlib import Path

import pytest

from agentflow.evals.record import EvaluationSettings
from agentflow.evals.run_folder import RunFolderError, kind_of, read_settings
from tests.failing import fails
from tests.runs import record, write_run
from tests.trainings import begin


def test_each_kind_says_so_in_its_first_field(tmp_path: Path) -> None:
    evaluation, training = write_run(tmp_path / "e", [record(0)]), begin(tmp_path / "t", 3)
    assert read_settings(evaluation, EvaluationSettings).kind == "evaluation"
    assert next(iter(json.loads((evaluation / "settings.json").read_bytes()))) == "kind"
    assert kind_of((training / "settings.json").read_bytes()) == "training"


@pytest.mark.parametrize(
    "content", [None, "", "{", "[]", '{"kind": "training"}', "{}", '{"kind": "evaluation", "x": 1}']
)
def test_what_is_no_evaluation_of_this_version_is_refused(content: str | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "settings.json").write_text(content)
    with pytest.raises(RunFolderError):
        read_settings(tmp_path, EvaluationSettings)


def test_a_training_is_not_read_as_an_evaluation_nor_the_other_way(tmp_path: Path) -> None:
    training = pytest.importorskip("agentflow.rl.settings", reason="the extra train is not installed")
    with fails(RunFolderError, "other_kind", "evaluation"):
        read_settings(write_run(tmp_path / "e", [record(0)]), training.TrainingSettings)
    with fails(RunFolderError, "other_kind", "training"):
        read_settings(begin(tmp_path / "t", 3), EvaluationSettings)
