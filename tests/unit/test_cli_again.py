"""`agentflow eval again`: the same call in a folder of its own, compared with what it repeats."""

from asyncio import to_thread
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from agentflow import aevaluate
from agentflow.cli import app


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["eval", *map(str, arguments)])


@pytest.mark.parametrize("written", [["--out", "{}"], ["--out={}"]])
def test_the_embedded_model_answers_alike(tmp_path: Path, written: list[str]) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert run("atlas", "--sample", 2, *(word.format(first) for word in written), "--seed", 4).exit_code == 0
    done = run("again", first, "--out", second)
    assert done.exit_code == 0, done.output
    assert "2 of 2 tries have the same answer" in done.stdout
    assert done.stderr.splitlines()[-1].startswith("note: ") or "same parts" in done.stderr
    assert (second / "traces.jsonl").read_text().count("\n") == 2


async def test_what_python_evaluated_is_repeated_in_python(tmp_path: Path) -> None:
    """Its provenance has no call, as in an evaluation from Python."""
    await aevaluate("atlas", limit=1, out=tmp_path / "a")
    done = await to_thread(run, "again", tmp_path / "a", "--out", tmp_path / "new")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "agentflow.evaluate" in done.stderr
