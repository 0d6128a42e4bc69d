"""The installed package, outside the checkout."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import threading
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import agentflow

ROOT = Path(__file__).parents[2]
SOURCE = (
    *(".ci", "agentflow", "evals", "graph", "nodes", "rl", "tools", "tests"),
    *("pyproject.toml", "README.md", "LICENSE"),
)
REPOSITORY = "https://git.example/agentflow"


def run(*command: str | Path, cwd: Path) -> str:
    """Output of a command that must succeed and sees nothing of the checkout."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built for an index, from a copy of the source, since a build leaves files beside it."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in SOURCE:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, source)
    run(sys.executable, source / ".ci" / "publish.py", REPOSITORY, "v1", cwd=source)
    build = ("pip", "wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", out)
    run(sys.executable, "-m", *build, source, cwd=source)
    [built] = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def index(wheel: Path) -> Iterator[str]:
    """The address of an index that has the wheel alone."""
    home = wheel.parent / "simple" / "agentflow-langgraph"
    home.mkdir(parents=True)
    shutil.copy(wheel, home)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=wheel.parent)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/simple/"
        server.shutdown()


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a fresh venv that has the wheel.

    Downloading the dependencies again would take minutes and the network, so the venv sees those of this environment.
    It sees them last, and what is on such a path does not take part in `.pth` files, so that the checkout itself,
    which is installed here as editable, stays out of sight; the first test below holds that.
    """
    home = tmp_path_factory.mktemp("venv")
    run(sys.executable, "-m", "venv", "--without-pip", home, cwd=home)
    interpreter = home / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", interpreter, "install", "--no-deps", "--no-index", wheel, cwd=home)
    [packages] = home.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n")
    return interpreter


def test_it_runs_from_the_wheel_and_not_from_the_checkout(python: Path, tmp_path: Path) -> None:
    home = Path(run(python, "-c", "import agentflow; print(agentflow.__file__)", cwd=tmp_path).strip())
    assert home.is_relative_to(python.parents[1])
    program = (
        "import agentflow\nprint(*[getattr(agentflow, name).__module__ for name in agentflow.__all__])\n"
        "print(agentflow.load_model('atlas-oracle')._llm_type)"
    )
    *names, provider = run(python, "-c", program, cwd=tmp_path).split()
    assert (len(names), provider) == (len(agentflow.__all__), "atlas-oracle")
    assert "planner" in run(python.with_name("agentflow"), "graph", cwd=tmp_path)


def test_it_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        linked = [info.filename for info in archive.infolist() if (info.external_attr >> 16) & 0o170000 == 0o120000]
    package = {
        str(Path(folder, name).relative_to(ROOT))
        for folder, _, files in os.walk(ROOT / "agentflow", followlinks=True)
        for name in files
        if Path(folder).name != "__pycache__"
    }
    assert {name for name in names if not name.startswith("agentflow_langgraph-")} == package
    assert not linked
    assert wheel.stat().st_size < 25_000_000


def test_the_page_of_an_index_leads_somewhere(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(archive.read(name).decode())
    links = re.findall(r'\]\(([^)\s]+)\)|\bsrc(?:set)?="([^"]+)"', metadata.get_payload())
    links = [one or other for one, other in links]
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    assert {f"{REPOSITORY}/raw/v1/docs/agent-light.svg", f"{REPOSITORY}/blob/v1/docs/quickstart.md"} <= set(links)
    urls = dict(url.split(", ") for url in metadata.get_all("Project-URL"))
    assert {"Homepage", "Documentation", "Changelog", "Issues", "Paper"} == set(urls)
    versions = {f"Programming Language :: Python :: 3.{minor}" for minor in range(11, 15)}
    assert {*versions, "Typing :: Typed"} <= set(metadata.get_all("Classifier"))


@pytest.mark.slow
@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_from_an_index_it_answers_in_an_empty_environment(installer: str, index: str, tmp_path: Path) -> None:
    """The core alone, with the newest of everything that this machine's own index has."""
    home = tmp_path / "new"
    interpreter = home / "bin" / "python"
    if installer == "uv":
        uv = shutil.which("uv") or pytest.skip("uv is not installed")
        run(uv, "venv", "--python", sys.executable, home, cwd=tmp_path)
        run(uv, "pip", "install", "--python", interpreter, "--index", index, "agentflow-langgraph", cwd=tmp_path)
    else:
        run(sys.executable, "-m", "venv", home, cwd=tmp_path)
        run(interpreter, "-m", "pip", "install", "--extra-index-url", index, "agentflow-langgraph", cwd=tmp_path)
    assert "Answer: 9" in run(interpreter.with_name("agentflow"), "solve", "How many feet are 3 yards?", cwd=tmp_path)
    program = "from agentflow.version import pip_install as how; print(how('web'))"
    assert "'agentflow-langgraph[web]'" in run(interpreter, "-c", program, cwd=tmp_path)
