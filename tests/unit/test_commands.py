"""The command line as a whole: wrong calls, examples, and what help shows.

A line of `wrong_calls.txt` is a call that ends with one line on stderr and exit code 2, and what that line names.
"""

import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import typer

from agentflow.cli import app
from agentflow.evals.benchmarks import store
from tests import command_line
from tests.cases import table
from tests.runs import record, write_run
from tests.scripted import Scripted

COMMAND = typer.main.get_command(app)
WRONG = [line.split("  ->  ") for line in Path(__file__).with_name("wrong_calls.txt").read_text().splitlines()]
NEEDS = {"verl": ("train", "replay", "doctor template", "serve --learn", "try ")}
"""Beginnings of the lines that need these packages."""


def commands(command: Any = COMMAND, name: str = "agentflow") -> Iterator[tuple[str, Any]]:
    """Every command by the words that call it."""
    yield name, command
    for word, inner in sorted(getattr(command, "commands", {}).items()):
        yield from commands(inner, f"{name} {word}")


CALLED = dict(commands())


def examples(command: Any) -> str:
    """The docstring and the examples of a command, as its help shows them."""
    return "\n".join(" ".join(text.split()) for text in (command.help or "", *(command.epilog or "").split("\n\n")))


def world(folder: Path) -> None:
    """Write the files that the calls name."""
    (folder / "empty").mkdir()
    for name, content in table(__file__, "files.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)
    quiz = (folder / "quiz.jsonl").read_text()
    (folder / "quizzes.jsonl").write_text("".join(quiz.replace("city", f"city {number}") for number in range(40)))
    (folder / "binary").write_bytes(b"\xff\xfe\x00")
    write_run(folder / "seed", [record(number, correct=number < 3) for number in range(6)])
    write_run(folder / "own", [record(0, benchmark="gone.jsonl")])
    write_run(folder / "other", [record(number, benchmark="aime24") for number in range(3)])


@contextmanager
def without_keys(folder: Path) -> Iterator[pytest.MonkeyPatch]:
    """Enter a folder that is the user's home too, with no key in the environment."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name in [name for name in os.environ if name.endswith("_API_KEY") or name.startswith("AGENTFLOW_")]:
            monkeypatch.delenv(name)
        for name in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
            monkeypatch.setenv(name, str(folder / "home"))
        monkeypatch.chdir(folder)
        yield monkeypatch


@pytest.fixture(scope="module")
def somewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A folder with the files that the calls name; no data set is downloaded."""
    folder = tmp_path_factory.mktemp("commands")
    with without_keys(folder) as monkeypatch:
        monkeypatch.setattr(store, "folder", lambda name: folder / "home" / name)
        Scripted(planner="Sub-Goal: Say it\nTool: base_generator\nContext: it").install(monkeypatch)
        world(folder)
        yield


@pytest.mark.parametrize(("call", "named"), WRONG, ids=[call for call, _ in WRONG])
@pytest.mark.usefixtures("somewhere")
def test_a_wrong_call_is_one_line_that_names_the_fault_and_exit_2(call: str, named: str) -> None:
    for package, beginnings in NEEDS.items():
        if f"{call} ".startswith(beginnings):
            pytest.importorskip(package)
    words = [word.encode().decode("unicode_escape") if "\\" in word else word for word in shlex.split(call)]
    done = command_line.call(*words)
    lines = [line for line in done.output.splitlines() if not line.startswith(("note: ", "[1/1] "))]
    assert done.exit_code == 2
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    assert named in lines[0]
    assert set(re.findall(r"agentflow ([a-z][a-z-]*)", lines[0])) <= set(COMMAND.commands)
    assert not [*Path().glob("run"), *Path().glob("live")], "nothing is begun"


def test_every_command_has_an_example() -> None:
    leaves = {name: examples(command) for name, command in CALLED.items() if not hasattr(command, "commands")}
    assert [name for name, text in leaves.items() if not re.search("(Example|Try).*: .*agentflow", text)] == []


def test_no_help_shows_a_type_of_python() -> None:
    repeated = [one for command in CALLED.values() for one in command.params if getattr(one, "multiple", False)]
    assert [one.opts for one in repeated if not one.metavar] == []
