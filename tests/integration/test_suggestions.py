"""Commands suggested by help texts, pages and errors succeed, if they need neither a key nor a server.

Every question that is suggested for the embedded model is one of Atlas's test split, and is answered correctly. The
examples of the help texts run, shorter where they are long, in a folder with the runs and threads that they name.
"""

import json
import re
import shlex
from collections.abc import Iterator
from importlib.util import find_spec
from typing import NamedTuple

import pytest

from agentflow.evals.atlas.families import questions
from tests.command_line import succeeds
from tests.integration.test_docs import wrong
from tests.pages import PAGES, ROOT, simple_commands
from tests.unit.test_commands import CALLED, without_keys
from tests.unit.test_commands import examples as texts

ROOMS = (
    *("agentflow/cli", "agentflow/checks", "agentflow/console", "agentflow/view"),
    *("graph", "nodes", "tools", "evals", "rl"),
)
SOURCES = (
    *(path for room in ROOMS for ending in ("py", "js") for path in sorted((ROOT / room).rglob(f"*.{ending}"))),
    *PAGES,
    *(ROOT / name for name in ("AGENTS.md", "CONTRIBUTING.md", "Makefile")),
)
SUGGESTED = re.compile(r"""agentflow (solve|compare) "(\w[^"{$]*[?.])"((?: --[a-z][a-z-]*(?: '\*'| [\w:./@-]+)?)*)""")
NEEDED_OTHERS = re.compile(r"--(approve|tracing) \S+")
"""Options that need a person or a collector."""

NEEDS_MORE = {
    "a key": ("chat", "eval rescore", "tools"),
    "a file": ("corpus build", "corpus look-up", "data check", "data from-traces", "doctor template"),
    "the network or a server": ("data get", "doctor", "tools test"),
    "a training or an agent": ("export", "init", "replay", "try"),
    "a client": ("mcp", "serve"),
    "a hundred scored answers": ("calibrate",),
    "a browser": ("view",),
    "an hour": ("train",),
}
LEFT_OUT = {command for commands in NEEDS_MORE.values() for command in commands}


class Suggestion(NamedTuple):
    command: str
    question: str
    options: str

    @property
    def words(self) -> list[str]:
        return shlex.split(NEEDED_OTHERS.sub("", self.options))


def suggestions() -> list[Suggestion]:
    found = {Suggestion(*match.groups()) for path in SOURCES for match in SUGGESTED.finditer(path.read_text())}
    return sorted(one for one in found if not re.search(r"--model (?!embedded)", one.options))


@pytest.fixture(autouse=True, scope="module")
def somewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Enter a new folder, where threads are kept too; without keys."""
    with without_keys(tmp_path_factory.mktemp("suggestions")):
        yield


@pytest.fixture(scope="module")
def atlas() -> dict[str, str]:
    return {problem.question: problem.answer for problem in questions("test", 480)}


def answer(question: str, *options: str) -> str:
    return str(json.loads(succeeds("solve", question, "--json", *options).stdout)["answer"])


def test_there_are_suggestions() -> None:
    assert {one.command for one in suggestions()} == {"solve", "compare"}
    assert len(suggestions()) > 8


@pytest.mark.parametrize("suggestion", suggestions(), ids=" ".join)
def test_a_suggested_question_is_answered(suggestion: Suggestion, atlas: dict[str, str]) -> None:
    if "--thread" in suggestion.words:
        pytest.importorskip("langgraph.checkpoint.sqlite")
    if suggestion.command == "solve":
        assert answer(suggestion.question, *suggestion.words) == atlas[suggestion.question]
        return
    succeeds("compare", suggestion.question, *suggestion.words)
    planners = [word for word in suggestion.words if not word.startswith("--")]
    before, after = (answer(suggestion.question, "--planner", planner) for planner in planners)
    assert before != after == atlas[suggestion.question]


def examples() -> list[tuple[str, str]]:
    """The commands, each with an example of its help, without redirections."""
    found = []
    for name, command in CALLED.items():
        for part in re.split(r"(?:Example|Try): ", texts(command))[1:]:
            found.append((name, re.sub(r" > \S+|\s+$", "", part.splitlines()[0])))
    return found


@pytest.mark.parametrize("line", [line for _, line in examples()])
def test_an_example_can_be_read(line: str) -> None:
    assert [problem for words in simple_commands(line) if (problem := wrong(words))] == []


@pytest.fixture(scope="module")
def runs() -> None:
    """Make the runs and the thread that the examples name, as the pages do."""
    for out, planner in (("seed", "embedded:seed"), ("trained", "embedded"), ("atlas", "embedded")):
        succeeds("eval", "atlas", "--limit", "6", "--planner", planner, "--out", f"runs/{out}")
    if find_spec("langgraph.checkpoint.sqlite"):
        succeeds("solve", "How many feet are 3 yards?", "--thread", "monday")


@pytest.mark.parametrize("line", [line for name, line in examples() if name.partition(" ")[2] not in LEFT_OUT])
def test_an_example_succeeds(line: str, runs: None) -> None:
    if " threads " in line:
        pytest.importorskip("langgraph.checkpoint.sqlite")
    succeeds(*shlex.split(re.sub(r"--limit \d+", "--limit 2", line))[1:])
