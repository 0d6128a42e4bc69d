"""The figures: each that there are data for, as PNG and SVG, the same for the same data."""

from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from agentflow.evals.report.drawing import PALETTE, SERIES
from agentflow.evals.report.figures import write_figures
from agentflow.evals.runs import read_runs
from agentflow.tools.result import ErrorClass
from tests.runs import record, turn, write_run


def test_all_four_from_runs_with_several_limits(tmp_path: Path) -> None:
    turns = [turn(1), turn(2, "web_search", ErrorClass.TIMEOUT)]
    folders = [
        write_run(
            tmp_path / f"run{limit}", [record(n, turns=turns, correct=n < limit) for n in range(9)], max_turns=limit
        )
        for limit in (1, 3)
    ]
    runs = read_runs(folders)
    written = write_figures(tmp_path / "figures", runs)
    assert [path.stem for path in written[::2]] == ["accuracy", "turns", "tools", "errors"]
    assert written[0].read_bytes().startswith(b"\x89PNG")
    shown = {path.stem: path.read_text() for path in written if path.suffix == ".svg"}
    assert "web_search: timeout" in shown["errors"]
    assert "python_coder" in shown["tools"]
    again = write_figures(tmp_path / "again", runs)
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in written]


def test_without_data_there_is_no_figure(tmp_path: Path) -> None:
    runs = read_runs([write_run(tmp_path / "a", [record(0)])])
    assert [path.name for path in write_figures(tmp_path / "figures", runs)] == ["accuracy.png", "accuracy.svg"]


def test_figures_have_the_colours_of_the_pages(tmp_path: Path) -> None:
    [_, svg] = write_figures(tmp_path, read_runs([write_run(tmp_path / "a", [record(0, benchmark="atlas")])]))
    assert SERIES[0] in svg.read_text()
    assert len({*SERIES}) == len(SERIES) <= len(PALETTE)
