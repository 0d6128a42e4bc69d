"""README and docs/ are correct: programs run, commands and links exist, and pictures show the code as it is.

The Python blocks of a page are one program, which runs in a folder of its own, beside the files that the page names in
`title="..."`. Two things stand in for what a test cannot have: `openai:gpt-4o-mini` and the server at 127.0.0.1:8000
are a scripted model on loopback. Every command is read by the command line that it is for; those of the pages in
`TRIED` run as well, shorter where they are long.
"""

import json
import os
import re
import runpy
import shlex
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

import agentflow
from agentflow.cli import app
from agentflow.evals.atlas.families import questions
from agentflow.graph.agent import graph
from tests.command_line import succeeds
from tests.fake_openai import FakeOpenAI
from tests.pages import DOCS, PAGES, ROOT, Block, blocks, commands, name, program, prose, simple_commands
from tests.processes import python

MAKEFILE = (ROOT / "Makefile").read_text()
DEMO = MAKEFILE.partition("define DEMO\n")[2].partition("\nendef")[0].splitlines()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
SITE = yaml.safe_load((ROOT / "mkdocs.yml").read_text())

HOW_TO = ("models", "search", "benchmark", "traces")

TRIED = ("README.md", "docs/quickstart.md", *(f"docs/how-to/{page}.md" for page in HOW_TO))
"""Pages whose commands in bash blocks run."""

LEFT_OUT = re.compile(r"agentflow (train|eval compare) ")
"""Training, whose settings are looked at (`make test-slow` trains), and what needs the folders of other commands."""

FOLDERS = "agentflow|graph|nodes|tools|rl|evals|tests|examples|docs|benchmarks|recipes"

every_page = pytest.mark.parametrize("page", PAGES, ids=name)
every_text = pytest.mark.parametrize("page", [*PAGES, ROOT / "AGENTS.md", ROOT / "CONTRIBUTING.md"], ids=name)


def _scripted(body: dict[str, list[dict[str, str]]]) -> str:
    """A model that solves any question in one turn: with `stock` if it may, else with `base_generator`."""
    system = body["messages"][0]["content"]
    tool = "stock" if "- stock: " in system else "base_generator"
    if system.startswith("You are the planner"):
        return f"Sub-Goal: answer the question\nTool: {tool}\nContext: A-17"
    if system.startswith("You carry out one step") and "with the tool python_coder" in system:
        return '{"code": "print(42)"}'
    if system.startswith("You carry out one step"):
        return '{"article": "A-17"}' if " stock: " in system else '{"query": "the question"}'
    if system.startswith("You check"):
        return "Analysis: That answers it.\nVerdict: stop"
    return "Answer: forty-two"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """The base URL of a server that plays every model which a page has but a test has not."""
    with FakeOpenAI(_scripted, models=("gpt-4o-mini", "my-planner", "Qwen/Qwen2.5-7B-Instruct")) as server:
        yield server.base_url


def _with_endpoint(text: str, endpoint: str) -> str:
    return text.replace("http://127.0.0.1:8000/v1", endpoint).replace(
        "openai:gpt-4o-mini", f"openai:gpt-4o-mini@{endpoint}"
    )


def _enter(page: Path, folder: Path, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes `folder` the current one, with the files that the page names, and one key."""
    for block in blocks(page):
        if block.title:
            (folder / block.title).write_text(_with_endpoint(block.text, endpoint))
    for key in [key for key in os.environ if key.endswith("_API_KEY")]:
        monkeypatch.delenv(key)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    monkeypatch.chdir(folder)


def test_there_is_something_to_run() -> None:
    assert {"make run", "pip install ."} <= set(commands(ROOT / "README.md"))
    assert sum(bool(program(page)) for page in PAGES) >= 8
    assert sum(len(commands(page)) for page in PAGES) >= 50


@pytest.mark.parametrize("page", [page for page in PAGES if program(page)], ids=name)
def test_programs_run(page: Path, endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "with tracing(" in program(page):
        pytest.importorskip("openinference.instrumentation.langchain", reason="the extra otel is not installed")
    _enter(page, tmp_path, endpoint, monkeypatch)
    file = tmp_path / "program.py"
    file.write_text(_with_endpoint(program(page), endpoint))
    before = set(sys.modules)
    try:
        runpy.run_path(str(file), run_name="__main__")
    finally:
        for module in set(sys.modules) - before:
            if str(getattr(sys.modules[module], "__file__", "")).startswith(str(tmp_path)):
                del sys.modules[module]


def test_the_first_program_passes_mypy_strict(tmp_path: Path) -> None:
    """The settings are those of `make types`, whose cache makes this quick; without a cache it takes a minute."""
    pytest.importorskip("mypy")
    (tmp_path / "first.py").write_text(program(ROOT / "README.md"))
    done = python("-m", "mypy", "--config-file", ROOT / "pyproject.toml", tmp_path / "first.py", cwd=ROOT)
    assert done.returncode == 0, done.stdout


def _tried() -> list[tuple[Path, str]]:
    first: dict[str, Path] = {}
    for page in (page for page in PAGES if name(page) in TRIED):
        for line in commands(page, "bash"):
            if line.startswith("agentflow ") and not LEFT_OUT.match(line):
                first.setdefault(line, page)
    return [(page, line) for line, page in first.items()]


@pytest.mark.parametrize(
    ("page", "command"), _tried(), ids=lambda one: name(one) if isinstance(one, Path) else one[:60]
)
def test_commands_run(page: Path, command: str, endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _enter(page, tmp_path, endpoint, monkeypatch)
    short = re.sub(r"--limit \d+|(--subset \w+)", r"\1 --limit 3", _with_endpoint(command, endpoint))
    done = succeeds(*shlex.split(short)[1:])
    assert "forty-two" in done.stdout if "--model" in command and " solve " in command else done.stdout.strip()


@pytest.mark.filterwarnings("ignore")
def test_settings_of_training_are_those_that_there_are() -> None:
    pytest.importorskip("verl")
    from agentflow.rl.settings import TrainingSettings, compose_settings

    overrides: dict[str, set[str]] = defaultdict(set)
    for line in (line for page in PAGES for line in commands(page) if line.startswith("agentflow train ")):
        [words] = simple_commands(line)
        preset = words[words.index("--preset") + 1]
        settings = [word for before, word in pairwise(words[1:]) if before != "--policy"]
        overrides[preset] |= {word for word in settings if re.match(r"[\w.+~]+=", word)}
    assert len(overrides) >= 2
    for preset, changed in overrides.items():  # all of a preset's at once: each composition takes seconds
        assert TrainingSettings.of(compose_settings(preset, sorted(changed))).preset == preset


def _parse(words: list[str]) -> None:
    """Reads a call as the command line does, without carrying it out. Raises what a wrong one raises there."""
    command: Any = typer.main.get_command(app)
    called, left = words[0], words[1:]
    while True:
        try:
            context = command.make_context(called, left)
        except typer.Exit:  # --help and --version
            return
        left = [*context._protected_args, *context.args] if hasattr(command, "commands") else []
        if not left:
            return
        called, command, left = command.resolve_command(context, left)


def wrong(words: list[str]) -> str:
    """Return the problem of a page's command; "" if there is none."""
    if words[0] == "agentflow":
        try:
            _parse(words)
        except Exception as error:  # typer's classes of wrong calls are not exported
            return str(error)
        return ""
    if words[0] == "make":
        return "" if re.search(rf"^{words[1]}:.*## ", MAKEFILE, re.MULTILINE) else f"make has no target {words[1]}"
    if words[0] == "export":
        known = (ROOT / ".env.example").read_text()
        unknown = [word for word in words[1:] if f"{word.partition('=')[0]}=" not in known]
        return f".env.example does not have {unknown[0]}" if unknown else ""
    if words[1:2] == ["-m"] and words[2].startswith("agentflow"):
        return "" if find_spec(words[2]) else f"there is no module {words[2]}"
    return ""


@every_page
def test_commands_are_those_that_there_are(page: Path) -> None:
    found = [(line, wrong(words)) for line in commands(page) for words in simple_commands(line)]
    assert [(line, problem) for line, problem in found if problem] == []


@every_page
def test_extras_are_those_that_there_are(page: Path) -> None:
    named = re.findall(r"install [^\n]*'\S*\[([\w,]+)\]", page.read_text())
    assert {extra for names in named for extra in names.split(",")} <= set(EXTRAS)


def _data(block: Block) -> object:
    if block.language == "yaml":
        return yaml.safe_load(block.text)
    if block.language == "toml":
        return tomllib.loads(block.text)
    if block.title.endswith(".jsonl"):
        return [json.loads(line) for line in block.text.splitlines()]
    return json.loads(block.text)


@every_page
def test_data_can_be_read(page: Path) -> None:
    for block in blocks(page):
        if block.language in ("yaml", "json", "toml"):
            assert _data(block), f"line {block.line}"


@every_text
def test_links_and_pictures_lead_somewhere(page: Path) -> None:
    links = [one or other for one, other in re.findall(r'\]\(([^)\s]+)\)|(?:src|srcset)="([^"]+)"', prose(page))]
    ours = [link.partition("#")[0] for link in links if not re.match(r"https?:|mailto:|#", link)]
    assert [link for link in ours if not (page.parent / link).exists()] == []


@every_text
def test_files_and_tests_that_are_named_are_there(page: Path) -> None:
    for path, test in re.findall(rf"`((?:{FOLDERS})/[\w./*-]+)(?:::(\w+))?`", prose(page)):
        assert list(ROOT.glob(path)) or re.search(r"/[A-Z]+$|/my_", path), path
        if test:
            assert re.search(rf"^(?:async )?def {test}\(", (ROOT / path).read_text(), re.MULTILINE), f"{path}::{test}"


def _listed(nav: object) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, dict):
        yield from (page for entry in nav.values() for page in _listed(entry))
    elif isinstance(nav, list):
        yield from (page for entry in nav for page in _listed(entry))


def test_every_page_is_in_the_contents_once() -> None:
    lab = {page.name for page in (DOCS / "lab").glob("*.md")} - {"index.md"}
    pages = sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if page.name not in lab)
    assert sorted(_listed(SITE["nav"])) == pages
    assert set(re.findall(r"\]\(([\w-]+\.md)\)", (DOCS / "lab/index.md").read_text())) == lab


def test_every_public_name_and_variable_is_in_the_reference() -> None:
    described = re.findall(r"^::: agentflow\.(\w+)$", (DOCS / "reference/python.md").read_text(), re.MULTILINE)
    assert sorted(described) == sorted(agentflow.__all__)
    variables = re.findall(r"^(\w+)=", (ROOT / ".env.example").read_text(), re.MULTILINE)
    table = (DOCS / "reference/settings.md").read_text().partition("| variable |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`([A-Z]\w+_\w+)`", table)) == set(variables)


@pytest.mark.parametrize("page", ["lab/differences.md", "correctness.md"])
def test_what_is_claimed_names_a_test_each(page: str) -> None:
    entries = re.findall(r"^- \*\*.*(?:\n  .*)*", (DOCS / page).read_text(), re.MULTILINE)
    assert entries
    assert [entry for entry in entries if "::test_" not in entry] == []


def test_the_picture_has_the_nodes_of_the_graph() -> None:
    nodes = re.findall(r'class="node[^"]*"[^>]*>(\w+)<', (DOCS / "graph.svg").read_text())
    assert sorted(nodes) == sorted(node for node in graph.nodes if not node.startswith("__"))


def test_make_run_asks_what_the_model_never_saw() -> None:
    assert DEMO
    assert set(DEMO) <= {question.question for question in questions("test", 240)}


def _transcripts() -> list[tuple[Path, str]]:
    texts = [(page, block.text) for page in PAGES for block in blocks(page) if block.language == "text"]
    return [(page, text) for page, text in texts if text.startswith("$ agentflow ")]


@pytest.mark.parametrize(("page", "transcript"), _transcripts(), ids=[name(page) for page, _ in _transcripts()])
def test_transcripts_are_what_a_run_prints(page: Path, transcript: str, tmp_path: Path) -> None:
    """All but the line with the seconds."""
    command, _, printed = transcript.removeprefix("$ ").partition("\n")
    words = shlex.split(command)
    assert words[2] in DEMO
    environment = {key: value for key, value in os.environ.items() if not key.endswith("_API_KEY")}
    environment |= {"COLUMNS": "80", "PYTHONPATH": str(ROOT)}
    done = python("-m", *words, cwd=tmp_path, env=environment)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    shown, found = (
        [line.rstrip() for line in text.strip("\n ").splitlines() if not line.startswith("(")]
        for text in (printed, done.stdout)
    )
    assert shown == found
