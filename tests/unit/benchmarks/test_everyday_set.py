"""Files of everyday questions: their sizes, and that no question is in two of them."""

import json
from pathlib import Path

from typer import Typer
from typer.testing import CliRunner

from benchmarks import everyday_set

app = Typer()
app.command()(everyday_set.main)


def test_the_files_share_no_question_and_are_the_same_each_time(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        assert CliRunner().invoke(app, [str(tmp_path / folder)]).exit_code == 0
    rows = {
        name: [json.loads(line) for line in (tmp_path / "one" / f"{name}.jsonl").read_text().splitlines()]
        for name in everyday_set.SIZES
    }
    assert {name: len(found) for name, found in rows.items()} == everyday_set.SIZES
    assert len({row["question"] for found in rows.values() for row in found}) == sum(everyday_set.SIZES.values())
    assert all(row["answer"] for found in rows.values() for row in found)
    for name in rows:
        assert (tmp_path / "one" / f"{name}.jsonl").read_bytes() == (tmp_path / "two" / f"{name}.jsonl").read_bytes()


def test_a_folder_that_cannot_be_written_is_one_line_and_exit_2(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = CliRunner().invoke(app, [str(tmp_path / "file")])
    assert (found.exit_code, found.stderr.count("\n")) == (2, 1)
