"""`agentflow eval report` and `compare`: what a user sees, and one line for what is wrong."""

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from agentflow.cli import app
from agentflow.evals.passport.provenance import Provenance
from tests.runs import record, write_run


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["eval", *map(str, arguments)])


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    first = write_run(tmp_path / "seed", [record(n, correct=n < 20) for n in range(60)])
    second = write_run(tmp_path / "trained", [record(n, correct=n < 40) for n in range(50)], planner="openai:p")
    return first, second


def test_compare_says_whether_there_is_a_difference(folders: tuple[Path, Path]) -> None:
    done = run("compare", *folders)
    assert done.exit_code == 0, done.output
    assert "trained is better than seed: trained minus seed is +" in done.stdout
    assert "10 questions are in only one of them" in done.stderr
    same = run(
        "compare", folders[0], write_run(folders[0].parent / "again", [record(n, correct=n > 40) for n in range(60)])
    )
    assert "no difference that 60 questions can show" in same.stdout


def test_compare_lists_what_came_out_otherwise(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", [record(n, correct=n < 3) for n in range(6)])
    b = write_run(tmp_path / "b", [record(n, correct=n in (1, 2, 3, 4)) for n in range(6)])
    listed = run("compare", a, b, "--flips").stdout.splitlines()
    assert any(line.endswith("1 lost, 2 gained") for line in listed)
    changed = [line.split()[:3] for line in listed if " -> " in line]
    assert changed == [["1.00", "->", "0.00"], ["0.00", "->", "1.00"], ["0.00", "->", "1.00"]]
    assert " -> " not in run("compare", a, b).stdout


def test_compare_corrects_for_the_number_of_benchmarks(tmp_path: Path) -> None:
    names = ("bamboogle", "aime24")
    a, b = (
        write_run(
            tmp_path / folder, [record(n, benchmark=name, correct=n < right) for name in names for n in range(30)]
        )
        for folder, right in (("a", 10), ("b", 16))
    )
    done = run("compare", a, b)
    rows = [line.split() for line in done.stdout.splitlines()]
    assert "corrected" in rows[0]
    assert [row[-2:] for row in rows[1:3]] == [["0.0313", "0.0625"]] * 2


def test_compare_names_other_settings_that_differ(folders: tuple[Path, Path], tmp_path: Path) -> None:
    other = write_run(tmp_path / "short", [record(n) for n in range(60)], max_turns=2, planner="openai:q")
    assert "besides the planner, they differ in max_turns" in run("compare", folders[0], other).stderr
    path = other / "settings.json"
    path.write_text(path.read_text().replace('"prices":{}', '"prices":{"m":{"read":1,"written":2}}'))
    assert "prices" not in run("compare", folders[0], other).stderr


def test_compare_says_whether_another_program_made_one_of_them(tmp_path: Path) -> None:
    first = Provenance(at="one day", call="", versions={"langgraph": "1.2.1"}, prompts={}, tools={})
    others = {"same": {"at": "another day"}, "newer": {"versions": {"langgraph": "1.2.2"}}}
    base = write_run(tmp_path / "base", [record(0)], provenance=[first])
    for name, changed in others.items():
        write_run(tmp_path / name, [record(0)], provenance=[first.model_copy(update=changed)])
    assert run("compare", base, tmp_path / "same").stderr == ""
    said = run("compare", base, tmp_path / "newer").stderr
    assert said.strip() == "note: besides the planner, they differ in the program"


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
    monkeypatch.delitem(sys.modules, "agentflow.evals.report.figures", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = run("report", *folders, "--out", tmp_path / "r.html", "--figures", tmp_path / "figures")
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1].endswith("install it with: pip install 'agentflow-langgraph[report]'")


def test_a_report_that_cannot_be_written_is_one_line_and_exit_1(folders: tuple[Path, Path], tmp_path: Path) -> None:
    done = run("report", *folders, "--out", tmp_path / "nowhere" / "r.html")
    assert done.exit_code == 1
    assert len(done.stderr.splitlines()) == 1
