"""The first hour of a new user: first_hour.md, typed command by command into an empty folder; and so is the skill.

Every command runs as a shell runs it, with the installed program on PATH and no key in the environment, and prints what
the file shows. A server stays up until the end, at a free port instead of the one in the file.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from tests.pages import ROOT, Step, blocks, steps
from tests.ports import free_port
from tests.waiting import LAST_RESORT, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

if not (find_spec("verl") and find_spec("langgraph.checkpoint.sqlite") and shutil.which("curl")):
    pytest.skip("first_hour.md uses the extras train and durable, and curl", allow_module_level=True)

PAGE = Path(__file__).with_name("first_hour.md")
INTERRUPT = "^C"


class Walk:
    """A folder, the environment of a new user, and the servers that are up."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        programs = folder / "bin"
        programs.mkdir()
        (programs / "agentflow").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m agentflow "$@"\n')
        (programs / "agentflow").chmod(0o755)
        left_out = ("_API_KEY", "_TOKEN")
        kept = {name: value for name, value in os.environ.items() if not name.endswith(left_out)}
        kept = {name: value for name, value in kept.items() if not name.startswith(("AGENTFLOW_", "XDG_"))}
        path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), kept["PATH"]])
        self.environment = {**kept, "PATH": path, "HOME": str(folder), "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
        self.ports: dict[str, str] = {}
        self.servers: list[Run] = []

    def text(self, of_page: str) -> str:
        """Return a text of the page with free ports in place of its ports."""
        return re.sub(r"\b(?:8001|8765)\b", lambda found: self.ports.setdefault(found[0], str(free_port())), of_page)

    def take(self, step: Step) -> str:
        """Run a command, interrupt it where the page does, and return what differs from the page; "" if nothing."""
        run = Run(self, step)
        shown = [self.text(line) for line in step.shown]
        first = shown[: shown.index(INTERRUPT)] if INTERRUPT in shown else shown
        if step.stays:
            self.servers.append(run)
        if step.stays or INTERRUPT in shown:
            until(lambda: run.ended or not missing(first, run.output))
        if INTERRUPT in shown:
            run.interrupt()
        if not step.stays:
            run.wait()
        problem = missing([line for line in shown if line != INTERRUPT], run.output)
        if problem:
            return f"{problem!r} is not in the output:\n{run.output}"
        return "" if step.stays or run.status == step.status else f"ends with {run.status}:\n{run.output}"

    def close(self) -> None:
        for server in self.servers:
            server.interrupt()
            server.wait()


class Run:
    """A running command, a process group of its own, whose output is a file."""

    def __init__(self, walk: Walk, step: Step) -> None:
        self._path = walk.folder.parent / f"output-{step.line}"
        with self._path.open("w") as output:
            self._process = subprocess.Popen(
                ["bash", "-c", f"set -o pipefail; {walk.text(step.command)}"],
                cwd=walk.folder,
                env=walk.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0,
            )

    @property
    def output(self) -> str:
        return self._path.read_text()

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def status(self) -> int:
        return self._process.returncode

    def interrupt(self) -> None:
        """Send what Ctrl-C sends: an interrupt to all processes of the command."""
        if not self.ended:
            os.killpg(self._process.pid, signal.SIGINT)

    def wait(self) -> None:
        self._process.wait(timeout=LAST_RESORT)


def missing(shown: list[str], output: str) -> str:
    """Return the first line of `shown` that does not come next in the output; "" if all do. Space is of any width."""
    lines = iter([" ".join(line.split()) for line in output.splitlines()])
    for one in (" ".join(line.split()) for line in shown):
        pieces = [re.escape(piece.strip()) for piece in one.split("...")]
        wanted = re.compile(r"\s*" + ".*".join(pieces) + r"\s*")
        if one != "..." and not any(wanted.fullmatch(line) for line in lines):
            return one
    return ""


@contextmanager
def walking(folder: Path) -> Iterator[Walk]:
    walk = Walk(folder)
    try:
        yield walk
    finally:
        walk.close()


def test_the_page_shows_what_its_commands_print(tmp_path: Path) -> None:
    problems = []
    with walking(tmp_path) as walk:
        for block in blocks(PAGE):
            if block.title:
                (walk.folder / block.title).write_text(block.text)
            for step in steps(block) if block.language == "console" else ():
                if problem := walk.take(step):
                    problems.append(f"{PAGE.name}:{step.line}: {step.command}\n{problem}")
    assert not problems, "\n\n".join(problems)


# The skill of coding agents, in a LangGraph repository

SKILL = ROOT / "skills/train-my-agent/SKILL.md"

AGENT = """
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph

model = ChatOpenAI(model="gpt-4o-mini", api_key="none")


async def answer(state: MessagesState) -> MessagesState:
    return {"messages": [await model.ainvoke(state["messages"])]}


agent = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer").compile()
"""
SHORT = 'def score(task, state) -> float:\n    return 1 / (1 + len(state["messages"][-1].text))\n'
"""A reward that the included model can learn."""


def test_its_commands_take_a_repository_to_a_trained_model(tmp_path: Path) -> None:
    with walking(tmp_path) as walk:
        (walk.folder / "my_agent.py").write_text(AGENT)
        served = {"dependencies": ["."], "graphs": {"agent": "./my_agent.py:agent"}}
        (walk.folder / "langgraph.json").write_text(json.dumps(served))
        for step in (step for block in blocks(SKILL) if block.language == "console" for step in steps(block)):
            assert not (problem := walk.take(step)), f"{step.command}\n{problem}"
            if " init " in step.command:
                [columns] = {tuple(json.loads(row)) for row in (walk.folder / "tasks.jsonl").read_text().splitlines()}
                tasks = [dict(zip(columns, (f"What is {n} plus 2?", str(n + 2)), strict=True)) for n in range(10)]
                (walk.folder / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))
                assert "def score(task, state)" in (walk.folder / "reward.py").read_text()
                (walk.folder / "reward.py").write_text(SHORT)
        assert (walk.folder / "policy/README.md").is_file()


def test_a_coding_agent_finds_it() -> None:
    front = yaml.safe_load(SKILL.read_text().split("---")[1])
    assert front["name"] == SKILL.parent.name
    assert len(front["description"]) <= 1024
    assert "skills/train-my-agent/SKILL.md" in (ROOT / "AGENTS.md").read_text()
