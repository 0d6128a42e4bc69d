"""`agentflow eval power`: from numbers and from a folder, and one line for what is wrong."""

from pathlib import Path

from typer.testing import CliRunner, Result

from agentflow.cli import app
from agentflow.evals.power import Plan
from tests.runs import record, write_run


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["eval", "power", *map(str, arguments)])


def needed(plan: Plan) -> list[str]:
    return [f"{plan.paired:,}", "2", "x", f"{plan.unpaired:,}"]


def test_numbers_are_enough() -> None:
    done = run("--accuracy", 0.5, "--difference", 0.1, "--between", 0.5, "--epochs", 4, "--power", 0.9)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].split()[-4:] == needed(Plan(0.5, 0.6, 4, 0.5, 0.9))


def test_what_is_not_known_is_said() -> None:
    done = run("--accuracy", 0.5)
    assert done.exit_code == 0
    assert done.stderr.startswith("note: ")
    assert done.stdout.splitlines()[-1].split()[-4:] == needed(Plan(0.5, 0.55))


def test_a_folder_has_accuracy_tries_and_variance(tmp_path: Path) -> None:
    """Ten questions always right, ten never: all variance is between questions."""
    records = [record(n, sample=sample, correct=n < 10) for n in range(20) for sample in range(2)]
    folder = write_run(tmp_path / "a", records, epochs=2)
    done = run(folder, "--difference", -0.2)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].split()[-4:] == needed(Plan(0.5, 0.3, 2, 1.0))
    single = run(write_run(tmp_path / "b", [record(n, correct=n < 10) for n in range(20)]))
    assert single.stderr.startswith("note: bamboogle: ")
