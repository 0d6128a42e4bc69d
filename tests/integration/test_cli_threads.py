"""`solve --thread`, `solve --approve` and `agentflow threads`, as a person uses them: killed, resumed, asked."""

import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentflow.cli.group import INTERRUPTED, MISUSED
from tests.fake_openai import FakeOpenAI
from tests.processes import python
from tests.scripted import module_of, modules

pytestmark = pytest.mark.slow  # each starts several processes

COMMAND = [sys.executable, "-m", "agentflow"]


@pytest.fixture
def model() -> Iterator[FakeOpenAI]:
    plan = "Sub-Goal: which word?\nTool: base_generator"
    with FakeOpenAI(modules(planner=plan, tools="a word")) as fake:
        yield fake


@pytest.fixture
def server(model: FakeOpenAI) -> str:
    return f"openai-compatible:fake@{model.base_url}"


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "XDG_DATA_HOME": str(tmp_path), "HOME": str(tmp_path), "TERM": "dumb", "COLUMNS": "200"}


def run(home: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return python("-m", "agentflow", *arguments, env=home, stdin=subprocess.DEVNULL)


def error(done: subprocess.CompletedProcess[str], code: int) -> str:
    assert done.returncode == code
    assert len(done.stderr.splitlines()) == 1
    return done.stderr.removeprefix("error: ").strip()


def until(terminal: int, text: str = "") -> str:
    """Return the terminal's output until `text` appears or the other end is closed."""
    screen = ""
    while not text or text not in screen:
        try:
            screen += os.read(terminal, 4096).decode("utf-8", "replace")
        except OSError:
            break
    return screen


@contextmanager
def terminal(home: dict[str, str], *arguments: str) -> "Iterator[tuple[int, subprocess.Popen[bytes]]]":
    """Our end of the terminal of a command, and its process, which is killed in the end."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([*COMMAND, *arguments], env=home, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        try:
            yield ours, process
        finally:
            process.kill()
            os.close(ours)


def at_terminal(home: dict[str, str], says: list[tuple[str, str]], *arguments: str) -> tuple[int, str]:
    """Exit status and screen of a command in a terminal, where a person answers these prompts in this order."""
    screen = ""
    with terminal(home, *arguments) as (ours, process):
        for prompt, answer in says:
            screen += until(ours, prompt)
            os.write(ours, answer.encode())
        screen += until(ours)
        return process.wait(), re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "", screen)


ASK = ("solve", "Which word?", "--approve", "base_generator")


@pytest.mark.parametrize(
    ("says", "shown", "read"),
    [
        ([("[a/e/r] ", "a\n")], "→ a word", "a word"),
        (
            [("[a/e/r] ", "r\n"), ("planner) ", "too loud\n")],
            'failed (refused): a person refused this call: "too loud"',
            "too loud",
        ),
        ([("[a/e/r] ", "\x04")], "failed (refused)", "no reason given"),
    ],
    ids=["approves", "refuses", "leaves"],
)
def test_a_person_decides_and_the_verifier_reads_it(
    says: list[tuple[str, str]], shown: str, read: str, home: dict[str, str], server: str, model: FakeOpenAI
) -> None:
    code, screen = at_terminal(home, says, *ASK, "--model", server)
    assert (code, "which word?" in screen, shown in screen, "Answer: hello" in screen) == (0, True, True, True)
    [asked] = [body for body in model.bodies if module_of(body["messages"][0]["content"]) == "verifier"]
    assert read in asked["messages"][-1]["content"]


def test_a_person_edits_until_it_fits(home: dict[str, str], server: str) -> None:
    edits = ['{"question": "which?"}', "which letter?", '{"query": "which letter?"}']
    says = [answer for edit in edits for answer in [("[a/e/r] ", "e\n"), ("one line: ", f"{edit}\n")]]
    code, screen = at_terminal(home, says, *ASK, "--model", server)
    assert code == 0
    assert "beware: the edit cannot be used: query: Field required" in screen
    assert "this is not JSON" in screen
    assert 'base_generator {"query": "which letter?"}' in screen


@pytest.mark.parametrize(("answer", "prompt"), [("", "[a/e/r] "), ("e\n", "one line: "), ("r\n", "planner) ")])
def test_one_interrupt_ends_the_prompt(home: dict[str, str], server: str, answer: str, prompt: str) -> None:
    with terminal(home, *ASK, "--thread", "t", "--model", server) as (ours, process):
        until(ours, "[a/e/r] ")
        os.write(ours, answer.encode())
        if answer:
            until(ours, prompt)
        process.send_signal(signal.SIGINT)
        screen = until(ours)
        assert process.wait() == INTERRUPTED
    assert "resume it with agentflow solve --thread t" in screen
    assert "Traceback" not in screen


def test_a_killed_run_is_listed_and_gone_on_with(home: dict[str, str], server: str) -> None:
    with terminal(home, *ASK, "--thread", "t", "--model", server) as (ours, _):
        until(ours, "[a/e/r] ")  # it is killed while it waits for the person
    assert " waiting " in run(home, "threads", "list").stdout
    shown = run(home, "threads", "show", "t").stdout
    assert "t: waiting" in shown
    assert 'base_generator {"query": "Which word?"}' in shown
    same = ("solve", "--thread", "t", "--model", server)
    assert error(run(home, *same), MISUSED) == "thread t waits for approval of base_generator; add --approve"
    other = error(run(home, "solve", "--thread", "t", "--model", "atlas-oracle"), MISUSED)
    assert other.startswith("thread t began with other settings (model 'openai-compatible")
    code, screen = at_terminal(home, [("[a/e/r] ", "a\n")], *same, "--approve", "*")
    assert (code, "Answer: hello" in screen) == (0, True)
    assert error(run(home, *same), MISUSED).startswith("thread t is finished")


def test_old_threads_are_deleted(home: dict[str, str], server: str) -> None:
    assert "there are no threads" in run(home, "threads", "list").stdout
    for question in ("Which word?", "Which letter?"):
        assert run(home, "solve", question, "--thread", "t", "--model", server).returncode == 0
    assert "Which letter?" in run(home, "threads", "show", "t").stdout
    assert run(home, "threads", "prune").stdout == "deleted 0 threads\n"
    refusal = run(home, "threads", "prune", "--older-than", "0m")
    assert error(refusal, MISUSED) == "this deletes 1 thread; add --yes"
    assert run(home, "threads", "prune", "--older-than", "0m", "--yes").stdout == "deleted 1 thread\n"
    assert "there are no threads" in run(home, "threads", "list").stdout
