"""The README does what it says: its programs and commands run, its picture is the code's, its targets exist.

Programs and commands run for real, each in a process of its own, except for two things that a test cannot have:
`openai:gpt-4o-mini` and the server at 127.0.0.1:8000 are a scripted model on loopback, and tools that would go to the
Internet are not chosen by it. What is long there is short here: `--limit`.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentflow.evals.atlas.families import questions
from agentflow.graph.agent import graph
from tests.fake_openai import FakeOpenAI

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS: list[tuple[str, str]] = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
PROGRAMS = [text for language, text in BLOCKS if language == "python"]
COMMANDS = [line for language, text in BLOCKS if language == "bash" for line in text.splitlines()]
MAKEFILE = (ROOT / "Makefile").read_text()
DEMO = MAKEFILE.partition("define DEMO\n")[2].partition("\nendef")[0].splitlines()

pytestmark = pytest.mark.timeout(180)

needs_seed = pytest.mark.skipif(
    not (ROOT / "rl" / "micro" / "seed").exists(),
    reason="there is no seed checkpoint in this checkout yet: python -m agentflow.rl.micro.pretrain makes it",
)


def _scripted(body: dict[str, list[dict[str, str]]]) -> str:
    """A model that solves any question in one turn: with `stock` if it may, else with `base_generator`."""
    system = body["messages"][0]["content"]
    tool = "stock" if "- stock: " in system else "base_generator"
    if system.startswith("You are the planner"):
        return f"Sub-Goal: answer the question\nTool: {tool}\nContext: A-17"
    if system.startswith("You carry out one step"):
        return '{"article": "A-17"}' if " stock: " in system else '{"query": "the question"}'
    if system.startswith("You check"):
        return "Analysis: That answers it.\nVerdict: stop"
    return "Answer: forty-two"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """The base URL of a server that plays every model which the README has but a test has not."""
    with FakeOpenAI(_scripted, models=("gpt-4o-mini", "my-planner", "Qwen/Qwen2.5-7B-Instruct")) as server:
        yield server.base_url


def _with_endpoint(text: str, endpoint: str) -> str:
    return text.replace("http://127.0.0.1:8000/v1", endpoint).replace(
        "openai:gpt-4o-mini", f"openai:gpt-4o-mini@{endpoint}"
    )


def _run(*arguments: str, cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    environment |= {"OPENAI_API_KEY": "sk-test", "COLUMNS": "120"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, timeout=150, check=False
    )
    assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    return done.stdout


def _with_seed_mark(texts: list[str]) -> list[object]:
    """As parameters; those that name no model need the embedded one, and `doctor` looks at it in any case."""
    embedded = re.compile(r"agentflow doctor|agentflow (solve|eval)\b(?!.*--model)|Context\(\)")
    return [pytest.param(text, marks=needs_seed) if embedded.search(text) else text for text in texts]


def test_there_is_something_to_run() -> None:
    assert len(PROGRAMS) >= 4
    assert COMMANDS[:2] == ["make run", "make test"]
    assert {language for language, _ in BLOCKS} == {"bash", "python", "mermaid", "text"}


@pytest.mark.parametrize("program", _with_seed_mark(PROGRAMS))
def test_programs_run(program: str, endpoint: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(_with_endpoint(program, endpoint))
    printed = _run("program.py", cwd=tmp_path)
    assert printed.strip() if "Context()" in program else "forty-two" in printed


@pytest.mark.parametrize("command", _with_seed_mark([line for line in COMMANDS if line.startswith("agentflow ")]))
def test_commands_run(command: str, endpoint: str, tmp_path: Path) -> None:
    short = re.sub(r"--limit \d+", "--limit 3", _with_endpoint(command, endpoint))
    if command.startswith("agentflow train"):
        pytest.importorskip("verl")
        short += " --show"  # `make test-train` trains
    printed = _run("-m", *shlex.split(short), cwd=tmp_path)
    assert "forty-two" in printed if "--model" in command and " solve " in command else printed.strip()


@pytest.mark.parametrize("command", [line for line in COMMANDS if not line.startswith("agentflow ")])
def test_other_commands_exist(command: str) -> None:
    words = command.split()
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:.*## ", MAKEFILE, re.MULTILINE)
    else:
        assert re.fullmatch(r"export \w+_API_KEY=\S+", command)
        assert words[1].partition("=")[0] in (ROOT / ".env.example").read_text()


def test_the_picture_is_the_graph() -> None:
    [picture] = [text for language, text in BLOCKS if language == "mermaid"]
    assert picture.strip() == graph.get_graph().draw_mermaid().strip(), "replace it by what `agentflow graph` prints"


def test_make_run_asks_what_the_model_never_saw() -> None:
    assert len(DEMO) == 3
    test = {question.question: question for question in questions("test", 240)}
    assert set(DEMO) <= set(test)
    families = [test[question].family for question in DEMO]
    assert "game of 24" in families
    assert max(len(test[question].steps) for question in DEMO) > 1


@needs_seed
def test_the_transcript_is_what_a_run_prints(tmp_path: Path) -> None:
    """All but the last line, which has the seconds."""
    [transcript] = [text for language, text in BLOCKS if language == "text" and text.startswith("$ ")]
    command, _, printed = transcript.removeprefix("$ ").partition("\n")
    assert shlex.split(command)[2] in DEMO
    now = _run("-m", *shlex.split(command), cwd=tmp_path)
    assert printed.strip().splitlines()[:-1] == now.strip().splitlines()[:-1]
