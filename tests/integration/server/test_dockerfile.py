"""`langgraph dockerfile`: what it writes of our langgraph.json. Docker itself is not needed."""

import json
import shutil
import subprocess

import pytest

from tests.integration.server.conftest import LANGGRAPH, ROOT, environment

INSTRUCTIONS = {"FROM", "ADD", "COPY", "RUN", "ENV", "WORKDIR", "ARG", "LABEL", "ENTRYPOINT", "CMD"}


@pytest.fixture(scope="module")
def dockerfile(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """Instructions and what follows them."""
    checkout = tmp_path_factory.mktemp("checkout") / "agentflow"
    checkout.mkdir()
    for name in ("langgraph.json", "pyproject.toml"):
        shutil.copy(ROOT / name, checkout)
    subprocess.run(
        [LANGGRAPH, "dockerfile", "Dockerfile"],
        cwd=checkout,
        env=environment(),
        check=True,
        capture_output=True,
    )
    text = (checkout / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.partition(" ")[0], line.partition(" ")[2].strip()) for line in lines]


def test_it_is_one(dockerfile: list[tuple[str, str]]) -> None:
    assert dockerfile[0][0] == "FROM"
    assert dockerfile[0][1].startswith("langchain/langgraph-api:3.11")
    assert {instruction for instruction, _ in dockerfile} <= INSTRUCTIONS


def test_the_package_is_added_and_installed(dockerfile: list[tuple[str, str]]) -> None:
    assert ("ADD", ". /deps/agentflow") in dockerfile
    assert any(instruction == "RUN" and "install" in what for instruction, what in dockerfile)


def test_both_graphs_are_named(dockerfile: list[tuple[str, str]]) -> None:
    [served] = [what for instruction, what in dockerfile if instruction == "ENV" and "LANGSERVE_GRAPHS" in what]
    graphs = json.loads(served.partition("=")[2].strip().strip("'"))
    wanted = json.loads((ROOT / "langgraph.json").read_text())["graphs"]
    assert {name: graph["path"] for name, graph in graphs.items()} == {
        name: graph["path"] for name, graph in wanted.items()
    }
