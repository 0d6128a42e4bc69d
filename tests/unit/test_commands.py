"""The wording of the command line: one snapshot per command, with its help and the lines of its errors.

A snapshot is a list of calls, each followed by what it prints. To add one, write its line `$ agentflow ...`. Then
`python -m tests.unit.test_commands` runs the calls and writes the files anew, for the diff to be read; with the words
of a command, such as `eval judge`, it does so for that one alone.
"""

import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from agentflow.cli import app
from agentflow.cli.panels import PANELS, PanelledCommand
from agentflow.evals.benchmarks import store
from agentflow.evals.provenance import Provenance
from tests.runs import record, write_run
from tests.scripted import Scripted

SNAPSHOTS = Path(__file__).with_name("commands")
COMMAND = typer.main.get_command(app)


def commands(command: Any = COMMAND, name: str = "agentflow") -> Iterator[tuple[str, Any]]:
    """Every command by the words that call it."""
    yield name, command
    for word, inner in sorted(getattr(command, "commands", {}).items()):
        yield from commands(inner, f"{name} {word}")


CALLED = dict(commands())
QUIZ = '{"question": "Which city?", "answer": "Oslo"}\n'
TRAINING = ("agentflow train", "agentflow replay", "agentflow doctor template")
"""Commands whose lines need the extra of the training."""


def snapshot(name: str) -> Path:
    return SNAPSHOTS / f"{name.removeprefix('agentflow ').replace(' ', '_')}.txt"


def help_of(command: Any) -> str:
    """The texts of a command's help, without their layout, which is typer's."""
    paragraphs = [command.help or "", *(command.epilog or "").split("\n\n")]  # typer shows each on its own line
    lines = [" ".join(text.split()) for text in paragraphs if text]
    for one in command.params:
        if one.name != "help":
            text = " ".join((getattr(one, "help", "") or "").split())
            lines.append(f"  {', '.join([*one.opts, *one.secondary_opts])}: {text}")
    inner = getattr(command, "commands", {}).items()
    return "\n".join([*lines, *(f"  {word}: {(one.help or '').split(chr(10))[0]}" for word, one in inner)]) + "\n"


def world(folder: Path) -> None:
    """Write the files that the calls name."""
    (folder / "empty").mkdir()
    for name, content in {
        "broken.jsonl": "{\n",
        "quiz.jsonl": QUIZ,
        "more/quiz.jsonl": QUIZ,
        "torn/settings.json": '{"steps": ',
        "old/settings.json": "{}",
        "old/traces.jsonl": "",
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)
    write_run(folder / "seed", [record(number, correct=number < 3) for number in range(6)])
    write_run(folder / "own", [record(0, benchmark="gone.jsonl")])
    write_run(folder / "other", [record(number, benchmark="aime24") for number in range(3)])
    write_run(folder / "flipped", [record(number, correct=number in (1, 2, 3, 4)) for number in range(6)])
    write_run(folder / "third", [record(number, correct=number < 20) for number in range(60)])
    write_run(folder / "rest", [record(number, correct=number > 40) for number in range(60)])
    write_run(folder / "trained", [record(number, correct=number < 40) for number in range(50)], planner="openai:p")
    write_run(folder / "short", [record(number) for number in range(60)], max_turns=2, planner="openai:q")
    priced = folder / "short" / "settings.json"  # prices change no answer
    priced.write_text(priced.read_text().replace('"prices":{}', '"prices":{"m":{"read":1,"written":2}}'))
    write_run(folder / "halves", [record(n, sample=s, correct=n < 10) for n in range(20) for s in range(2)], epochs=2)
    for name, right in (("ten", 10), ("sixteen", 16)):
        both = [record(n, benchmark=of, correct=n < right) for of in ("bamboogle", "aime24") for n in range(30)]
        write_run(folder / name, both)
    made = Provenance(at="one day", call="", versions={"langgraph": "1.2.1"}, prompts={}, tools={})
    for name, change in (("base", {}), ("same", {"at": "later"}), ("newer", {"versions": {"langgraph": "1.2.2"}})):
        write_run(folder / name, [record(0)], provenance=[made.model_copy(update=change)])


def outcome(line: str) -> str:
    """Return the output of a call and its exit status."""
    words = [word.encode().decode("unicode_escape") if "\\" in word else word for word in shlex.split(line)[1:]]
    done = CliRunner().invoke(app, words, prog_name="agentflow")
    printed = done.output.replace(f"{Path.cwd()}/", "")
    return f"$ {line}\n{printed}" + (f"exit {done.exit_code}\n" if done.exit_code else "")


def rendered(name: str) -> str:
    calls = re.findall(r"^\$ (.*)$", snapshot(name).read_text(), re.MULTILINE) if snapshot(name).exists() else []
    return "\n".join([help_of(CALLED[name]), *map(outcome, calls)])


@contextmanager
def somewhere(folder: Path) -> Iterator[None]:
    """Enter a folder with the files that the calls name; with no key, no data set, and a model that says hello."""
    plan = "Sub-Goal: Say it\nTool: base_generator\nContext: it"
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name in [name for name in os.environ if name.endswith("_API_KEY") or name.startswith("AGENTFLOW_")]:
            monkeypatch.delenv(name)
        for name in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
            monkeypatch.setenv(name, str(folder / "home"))
        monkeypatch.setenv("COLUMNS", "120")
        monkeypatch.setattr(store, "folder", lambda name: folder / "home" / name)
        Scripted(planner=plan, executor='{"query": "it"}').install(monkeypatch)
        world(folder)
        monkeypatch.chdir(folder)
        yield


@pytest.mark.parametrize("name", CALLED)
def test_a_command_says_what_its_snapshot_has(name: str, tmp_path: Path) -> None:
    if name in TRAINING:
        pytest.importorskip("verl")
    with somewhere(tmp_path):
        assert rendered(name) == snapshot(name).read_text(), "if this is meant: python -m tests.unit.test_commands"
        assert list(tmp_path.glob("new/*/traces.jsonl")) == []


def test_a_wrong_call_is_one_line_and_exit_2() -> None:
    """Nothing but the line, and a note before it."""
    outcomes = [one for path in SNAPSHOTS.iterdir() for one in path.read_text().split("\n$ ")[1:] if "\nexit " in one]
    assert len(outcomes) > 100
    wrong = re.compile(r"[^\n]*\n(?:note: [^\n]*\n)?error: [^\n]*\nexit 2\n?")
    assert [one for one in outcomes if not wrong.fullmatch(one)] == []


def test_every_help_has_an_example() -> None:
    shown = {name: help_of(command) for name, command in CALLED.items() if not hasattr(command, "commands")}
    assert [name for name, text in shown.items() if not re.search("(Example|Try).*: .*agentflow", text)] == []
    assert [name for name, text in shown.items() if re.search("Example: .*Example: ", text)] == []


def test_the_options_of_a_long_command_are_in_panels() -> None:
    long = [command for command in CALLED.values() if isinstance(command, PanelledCommand)]
    shown = {one.name: one.rich_help_panel for command in long for one in command.params if one.name != "help"}
    assert {name for name, panel in shown.items() if panel not in PANELS} <= {"graph", "models", "names", "question"}
    assert {name for names in PANELS.values() for name in names.split()} <= set(shown)


def test_no_help_shows_a_type_of_python() -> None:
    repeated = [one for command in CALLED.values() for one in command.params if getattr(one, "multiple", False)]
    assert [one.opts for one in repeated if not one.metavar] == []


def test_every_snapshot_is_of_a_command() -> None:
    assert {path.name for path in SNAPSHOTS.iterdir()} == {snapshot(name).name for name in CALLED}


if __name__ == "__main__":
    for name in [" ".join(["agentflow", *sys.argv[1:]])] if sys.argv[1:] else CALLED:
        with tempfile.TemporaryDirectory() as folder, somewhere(Path(folder).resolve()):
            text = rendered(name)
        snapshot(name).write_text(text)
