"""`langgraph dockerfile`: what it writes of our langgraph.json. Docker itself is not needed."""

import json
import shutil
import subprocess
from pathlib import Path

from tests.integration.server.conftest import LANGGRAPH, ROOT, environment


def test_the_package_is_installed_and_both_graphs_are_named(tmp_path: Path) -> None:
    checkout = tmp_path / "agentflow"
    checkout.mkdir()
    for name in ("langgraph.json", "pyproject.toml"):
        shutil.copy(ROOT / name, checkout)
    command = [LANGGRAPH, "dockerfile", "Dockerfile"]
    subprocess.run(command, cwd=checkout, env=environment(), check=True, capture_output=True)
    text = (checkout / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line.partition(" ") for line in text.splitlines() if line.strip() and not line.startswith("#")]
    found = [(instruction, what.strip()) for instruction, _, what in lines]
    assert found[0][0] == "FROM"
    assert found[0][1].startswith("langchain/langgraph-api:3.11")
    assert ("ADD", ". /deps/agentflow") in found
    assert any(instruction == "RUN" and "install" in what for instruction, what in found)
    [served] = [what for instruction, what in found if instruction == "ENV" and "LANGSERVE_GRAPHS" in what]
    graphs = json.loads(served.partition("=")[2].strip().strip("'"))
    wanted = json.loads((ROOT / "langgraph.json").read_text())["graphs"]
    assert {name: graph["path"] for name, graph in graphs.items()} == {
        name: graph["path"] for name, graph in wanted.items()
    }
