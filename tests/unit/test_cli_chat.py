"""`agentflow chat` without a terminal, a question from stdin, `.env` and the completion of the shell."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from agentflow.cli.dotenv_file import read_dotenv
from agentflow.cli.group import FAILED, MISUSED
from agentflow.graph.models.spec import ModelError
from agentflow.graph.run.trace import Trace
from tests.command_line import call, succeeds
from tests.scripted import GUESS, Script, Scripted


@pytest.fixture
def script(scripted: Script, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Scripted:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return scripted(**GUESS, generator="So it is.\nAnswer: hello")


def test_each_line_is_a_question_of_one_conversation(script: Scripted, tmp_path: Path) -> None:
    script.replies["follow_up"] = "Standalone question: Which other word?"
    said = "Which \\\nword?\n\n  \nAnd the other?\n"
    done = succeeds("chat", "--model", script.spec, "--trace", "t.jsonl", input=said)
    assert done.stdout.count("\nhello\n") == 2
    assert "read as: Which other word?" in done.stdout
    asked = [conversation[-1].text for conversation in script.asked("analyst")]
    assert asked == ["Question: Which \nword?", "Question: Which other word?"]
    traces = [Trace.model_validate_json(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert [trace.task.question for trace in traces] == ["Which \nword?", "And the other?"]


def test_a_thread_is_continued_by_another_call(script: Scripted) -> None:
    pytest.importorskip("aiosqlite")
    for question in ("First?\n", "Second?\n"):
        succeeds("chat", "--model", script.spec, "--thread", "monday", input=question)
    [conversation] = script.asked("follow_up")
    assert "User: First?\n\nAssistant: So it is.\n\nhello" in conversation[-1].text
    shown = succeeds("threads", "show", "monday").stdout
    assert [word for word in shown.split() if word in ("First?", "Second?")] == ["First?", "Second?"]
    [first, reply] = json.loads(succeeds("threads", "show", "monday", "--json").stdout)["earlier"]
    assert (first, reply["role"]) == ({"role": "human", "text": "First?"}, "ai")


def test_words_that_are_no_question(script: Scripted) -> None:
    said = "First?\n/new\nSecond?\n/model\n/nonsense\nexit\nThird?\n"
    done = succeeds("chat", "--model", script.spec, input=said)
    assert (len(script.asked("analyst")), len(script.asked("follow_up"))) == (2, 0)
    assert f"{script.spec} answers" in done.stderr
    assert "no command /nonsense" in done.stderr


def test_a_new_conversation_is_new_in_every_session(script: Scripted) -> None:
    pytest.importorskip("aiosqlite")
    for _ in range(2):
        succeeds("chat", "--model", script.spec, "--thread", "monday", input="/new\nFirst?\n")
    assert script.asked("follow_up") == []


def test_a_failed_turn_is_one_line_and_the_conversation_goes_on(script: Scripted) -> None:
    def fails(_: Any) -> str:
        raise ModelError("the server is away", code="away")

    script.replies["verifier"] = fails
    done = call("chat", "--model", script.spec, input="First?\nSecond?\n")
    assert done.exit_code == FAILED
    assert done.stderr.count("error: the server is away\n") == 2


def test_a_question_from_stdin(script: Scripted) -> None:
    succeeds("solve", "-", "--model", script.spec, input="Which word?\nThe long one.\n")
    assert script.asked("analyst")[0][-1].text == "Question: Which word?\nThe long one."


def test_dotenv_adds_what_the_environment_has_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("CHAT_OWN", "CHAT_ADDED"):
        monkeypatch.setenv(name, "own")
    monkeypatch.delenv("CHAT_ADDED")
    read_dotenv()
    assert "CHAT_ADDED" not in os.environ
    (tmp_path / ".env").write_text("CHAT_OWN=other\nCHAT_ADDED='a word' # of mine\n")
    read_dotenv()
    assert (os.environ["CHAT_OWN"], os.environ["CHAT_ADDED"]) == ("own", "a word")


def test_a_dotenv_that_is_no_text_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_bytes(b"\xff\xfe")
    with pytest.raises(SystemExit) as ended:
        read_dotenv()
    assert (ended.value.code, len(capsys.readouterr().err.splitlines())) == (MISUSED, 1)


def test_files_go_with_the_question(script: Scripted, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("It is hello.\n")
    (tmp_path / "chart.png").write_bytes(b"\x89PNG")
    asked = ("solve", "Which word?", "--file", "notes.txt", "--file", "chart.png", "--model", script.spec, "--json")
    trace = json.loads(succeeds(*asked).stdout)
    [[_, question]] = script.asked("analyst")
    assert question.text == "Question: Which word?\n\nThe file notes.txt, which a program can open:\nIt is hello."
    assert trace["task"]["question"] == question.text.removeprefix("Question: ")
    image = {"type": "image", "mime_type": "image/png", "filename": "chart.png", "base64": "iVBORw=="}
    assert question.content[1:] == [image]


@pytest.mark.parametrize(
    ("name", "text", "tools", "code"),
    [
        ("a.csv", "x\n" * 100_000, "base_generator,python_coder", 0),
        ("a.csv", "x\n" * 100_000, "base_generator", MISUSED),
        ("a.csv", "x\n" * 600_000, "base_generator,python_coder", MISUSED),
        ("a.txt", "x\n" * 100_000, "base_generator,python_coder", MISUSED),
        ("a.txt", "x\n" * 50_000, "base_generator", 0),
    ],
)
def test_a_table_that_programs_read_may_be_longer_than_a_text(
    name: str, text: str, tools: str, code: int, scripted: Script, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(f"\ufeff{text}", encoding="utf-8")
    script = scripted(**GUESS)
    done = call("solve", "Which word?", "--file", tmp_path / name, "--tools", tools, "--model", script.spec)
    assert (done.exit_code, len(done.stderr.splitlines()), bool(script.calls)) == (code, 1 if code else 0, not code)
    if not code:
        assert "\ufeff" not in script.asked("planner")[0][1].text
