from pathlib import Path

import pytest

from agentflow.cli.train import write_report
from agentflow.rl.run.training_log import TrainingLog
from tests.reports import Report
from tests.trainings import begin, credited, rollout, token_step, write_step, write_validation

HOSTILE = "</p><script>alert(1)</script><img src=x onerror=alert(2)>"


def run(out: Path, validations: int) -> Path:
    begin(out, 3)
    for step in range(validations):
        tasks = [rollout(step, "test", f"t{n}", float(step > 0), question=HOSTILE, answer=HOSTILE) for n in range(3)]
        write_validation(out, step, tasks)
        rollouts = [rollout(step + 1, "train", "g", reward, id=f"r{reward}", question=HOSTILE) for reward in (1.0, 0.0)]
        write_step(out, step + 1, credited(rollouts))
        TrainingLog(out).tokens(token_step(step + 1, "g", rollouts, hostile=HOSTILE))
    return out


def test_what_the_model_wrote_is_data(tmp_path: Path) -> None:
    html = write_report(run(tmp_path, 2)).read_text()
    assert "alert(" not in html
    assert html.count("</script>") == html.count("<script")
    assert HOSTILE in [text["question"] for text in Report(html).texts.values()]


@pytest.mark.parametrize("validations", [0, 1])
def test_a_run_that_has_just_begun_has_a_report_too(tmp_path: Path, validations: int) -> None:
    report = Report(write_report(run(tmp_path, validations)).read_text())
    assert len(report.rows) == validations * 5
