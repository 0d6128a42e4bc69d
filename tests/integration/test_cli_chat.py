"""`agentflow chat` and a streamed answer, as a person at a terminal uses them."""

import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fake_openai import FakeOpenAI, Fault, Reply
from tests.integration.test_cli_threads import at_terminal, terminal, until
from tests.scripted import modules

ANSWERED = "\r\n\r\n> "
"""The prompt after an answer. What is typed before it appears, the terminal does not pass on as it is."""


class Heard:
    """The questions that a model was asked, and whether it hangs at one of them."""

    def __init__(self) -> None:
        self.hangs = threading.Event()
        self.asked: list[str] = []

    def planner(self, body: dict[str, Any]) -> Reply:
        asked = body["messages"][-1]["content"]
        self.asked.append(asked.removeprefix("Question: ").partition("\nTurns left")[0])
        if "#hang#" not in self.asked[-1]:
            return "Sub-Goal: Say it\nTool: base_generator\nContext: x"
        self.hangs.set()
        return Fault.HANG


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def server(heard: Heard) -> Iterator[str]:
    replies = modules(
        follow_up="Standalone question: Which word comes after hello?",
        planner=heard.planner,
        generator="It is a greeting.\nAnswer: hello",
    )
    with FakeOpenAI(replies) as fake:
        yield f"openai-compatible:fake@{fake.base_url}"


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "XDG_DATA_HOME": str(tmp_path), "HOME": str(tmp_path), "TERM": "xterm", "COLUMNS": "200"}


def test_a_conversation(home: dict[str, str], server: str, heard: Heard, tmp_path: Path) -> None:
    """A question of two lines, one that was pasted, one from the history, and a follow-up."""
    says = [("> ", "Which \\\n"), (". ", "word?\n"), (ANSWERED, "\x1b[200~And\nnext?\x1b[201~\n"), (ANSWERED, "\x04")]
    code, screen = at_terminal(home, says, "chat", "--model", server, "--thread", "monday")
    assert code == 0
    assert heard.asked == ["Which \nword?", "Which word comes after hello?"]
    assert screen.count("It is a greeting.\n\nhello") >= 2
    assert "read as: Which word comes after hello?" in screen

    code, screen = at_terminal(
        home, [("> ", "\x1b[A\n"), (ANSWERED, "\x04")], "chat", "--model", server, "--thread", "monday"
    )
    assert (code, len(heard.asked)) == (0, 3)
    assert (tmp_path / "agentflow" / "history").stat().st_mode & 0o077 == 0


def test_ctrl_c_cancels_a_turn_and_the_conversation_goes_on(home: dict[str, str], server: str, heard: Heard) -> None:
    with terminal(home, "chat", "--model", server) as (ours, process):
        until(ours, "> ")
        os.write(ours, b"half a line")
        until(ours, "half a line")
        process.send_signal(signal.SIGINT)
        until(ours, "> ")
        os.write(ours, b"Wait #hang#\n")
        assert heard.hangs.wait()
        process.send_signal(signal.SIGINT)
        assert "cancelled" in until(ours, "> ")
        os.write(ours, b"And now?\n")
        assert "hello" in until(ours, ANSWERED)
        os.write(ours, b"\x04")
        until(ours)
        assert process.wait() == 0
    assert heard.asked == ["Wait #hang#", "Which word comes after hello?"]


def test_solve_shows_the_answer_as_it_is_written(home: dict[str, str], server: str) -> None:
    code, screen = at_terminal(home, [], "solve", "Which word?", "--model", server)
    assert code == 0
    assert screen.count("Answer: hello") == 1


READS = (Path(__file__).parent / "cases/interrupt.py.txt").read_text()


@pytest.mark.parametrize("line", ["edited", "plain"])
def test_an_interrupt_between_two_reads_is_noticed_at_once(line: str, tmp_path: Path) -> None:
    """It was lost until the next key: a Ctrl-C that came while a key was shown, before the next read began."""
    ours, theirs = pty.openpty()
    waits, tells = os.pipe()
    arguments = [sys.executable, "-c", READS, str(waits), line, str(tmp_path / "history")]
    with subprocess.Popen(arguments, stdin=theirs, stdout=theirs, stderr=theirs, pass_fds=[waits]) as process:
        os.close(theirs)
        try:
            until(ours, "> ")
            os.write(ours, b"half a line")
            until(ours, "half a line")
            os.write(tells, b"x")
            until(ours, "interrupted")
            assert process.wait() == 0
        finally:
            process.kill()
    for end in (ours, waits, tells):
        os.close(end)
