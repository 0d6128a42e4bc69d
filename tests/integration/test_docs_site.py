"""The documentation as a site: it is built without a warning, says what the program says, and loads nothing."""

import html
import os
import re
from pathlib import Path

import pytest
import typer

from agentflow.cli import app
from agentflow.graph.context import Context
from agentflow.rl.algorithms import FORMULAS
from tests.pages import ROOT
from tests.processes import python

pytest.importorskip("mkdocs")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    # As without a network: whatever would be fetched is refused at once.
    unreachable = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    environment = {**os.environ, **unreachable, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    done = python("-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder, cwd=ROOT, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return folder


def test_it_loads_nothing_from_elsewhere(site: Path) -> None:
    loads = re.compile(r"<(?:script|img|iframe)\b[^>]*\bsrc=\"?(?:https?:)?//|<link\b[^>]*\bhref=\"?(?:https?:)?//")
    for page in site.rglob("*.html"):
        assert not loads.search(page.read_text()), page
    for style in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import )[\"']?(?:https?:)?//", style.read_text()), style


def test_the_reference_has_every_command_and_option(site: Path) -> None:
    page = (site / "reference/cli/index.html").read_text()
    groups = [("agentflow", typer.main.get_command(app))]
    for name, command in groups:
        groups += [(f"{name} {sub}", one) for sub, one in getattr(command, "commands", {}).items()]
        assert name.replace("eval run", "eval NAME...") in page
        for parameter in command.params:
            assert parameter.opts[0] in page or parameter.metavar in page, (name, parameter.opts)


def test_settings_and_algorithms_are_described(site: Path) -> None:
    page = html.unescape(re.sub(r"<[^>]+>", "", (site / "reference/settings/index.html").read_text()))
    for name, field in Context.model_fields.items():
        assert name in page
        assert (field.description or "").replace("`", "")[:40] in page, name
    page = (site / "concepts/index.html").read_text()
    assert [name for name in FORMULAS if f"<code>{name}</code>" not in page] == []


def test_llms_txt_leads_to_every_page_as_markdown(site: Path) -> None:
    listed = re.findall(r"^- \[[^\]]+\]\(([^)]+)\): \S", (site / "llms.txt").read_text(), re.MULTILINE)
    lab = {f"lab/{page.name}" for page in (ROOT / "docs/lab").glob("*.md")} - {"lab/index.md"}
    assert {*listed} == {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")} - lab
    assert "agentflow solve" in (site / "reference/cli.md").read_text()
