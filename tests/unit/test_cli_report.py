"""`agentflow eval report`: what a user sees, and one line for what is wrong."""

import sys
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
    pytest.importorskip("matplotlib")
    done = run("report", *folders, "--out", tmp_path / "r.html", "--figures", tmp_path / "figures")
    assert done.exit_code == 0, done.output
    assert "r.html: 110 traces of 2 evaluations, " in done.stdout.replace("\n", "")
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {"accuracy.png", "accuracy.svg"}


def test_figures_say_which_extra_they_need(
    folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("figures", "drawing"):
        monkeypatch.delitem(sys.modules, f"agentflow.evals.report.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = run("report", *folders, "--out", tmp_path / "r.html", "--figures", tmp_path / "figures")
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1].endswith("install it with: pip install 'agentflow-langgraph[report]'")


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
