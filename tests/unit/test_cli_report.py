"""`agentflow eval report`: what a user sees, and one line for what is wrong."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from agentflow.cli import app
from tests.runs import record, write_run


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["eval", *map(str, arguments)])


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    first = write_run(tmp_path / "seed", [record(n, correct=n < 20) for n in range(60)])
    second = write_run(tmp_path / "trained", [record(n, correct=n < 40) for n in range(50)], planner="openai:p")
    return first, second


def test_a_report_says_what_it_wrote(folders: tuple[Path, Path], tmp_path: Path) -> None:
    done = run("report", *folders, "--out", tmp_path / "r.html")
    assert done.exit_code == 0, done.output
    assert "r.html: 110 traces of 2 evaluations, " in done.stdout.replace("\n", "")
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")


def test_a_report_that_cannot_be_written_is_one_line_and_exit_1(folders: tuple[Path, Path], tmp_path: Path) -> None:
    done = run("report", *folders, "--out", tmp_path / "nowhere" / "r.html")
    assert done.exit_code == 1
    assert len(done.stderr.splitlines()) == 1


def test_a_comparison_of_several_tries_shows_pass_at_k(tmp_path: Path) -> None:
    tries = [(question, sample) for question in range(4) for sample in range(2)]
    folders = [
        write_run(tmp_path / name, [record(n, sample=k, correct=n < right and k == 0) for n, k in tries], epochs=2)
        for name, right in (("seed", 1), ("trained", 3))
    ]
    done = run("compare", *folders)
    assert done.exit_code == 0, done.output
    assert "@2 25.0" in done.stdout


def test_a_comparison_of_single_tries_shows_none(folders: tuple[Path, Path]) -> None:
    assert "pass@k" not in run("compare", *folders).stdout
