"""The arrows between the packages, and what importing AgentFlow may load."""

import ast
from collections.abc import Callable, Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import agentflow
from tests.cases import table
from tests.processes import python

HOME = Path(agentflow.__file__).parent
PACKAGES = ("tools", "graph", "nodes", "evals", "rl", "view")

ARROWS = {module: tuple(imported) for module, imported in table(__file__, "arrows.txt")}
"""Allowed prefixes of imported modules, by the prefix of the importing module; the longest prefix applies. A module
gets anything else from a higher layer by an entry point.
"""

NOT_IN_THE_WHEEL = {"benchmarks", "examples", "recipes", "tests"}

HEAVY = {"torch", "transformers", "verl", "ray", "vllm"}
HEAVY_ALLOWED = {
    "rl.settings": {"torch"},
    "rl.launch.checks": {"torch", "verl"},
    "rl.run.export": {"torch", "transformers"},
    "rl.launch.workers": {"ray", "verl"},
    "rl.launch.local_policy": {"torch", "transformers"},
    "rl.rollout.template": {"transformers"},
    "rl.trainer": {"ray", "torch", "verl"},
    "rl.trainer.shared_prefix": {"transformers"},
}
"""By module or package."""


def modules() -> dict[str, Path]:
    """Every module of the packages by its name below `agentflow`."""
    found = {}
    for package in PACKAGES:
        for path in sorted((HOME / package).rglob("*.py")):
            parts = path.relative_to(HOME).with_suffix("").parts
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


MODULES = modules()


def imports(source: str, module: str = "tools.x", *, named: bool = True) -> Iterator[str]:
    """Yield the absolute names of all imports in `source`: at the top, in a function, or for type checkers only.

    If `named`, a string with the name of one of our modules counts as an import too.
    """
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom():
                base = _base(node, module)
                yield base
                yield from (f"{base}.{alias.name}" for alias in node.names)
            case ast.Constant(value=str() as text) if named and _ours(text.partition(":")[0]) in MODULES:
                yield text.partition(":")[0]


def _base(node: ast.ImportFrom, module: str) -> str:
    if not node.level:
        return node.module or ""
    parents = f"agentflow.{module}".split(".")[: -node.level]
    return ".".join([*parents, *([node.module] if node.module else [])])


def _ours(name: str) -> str:
    return name.removeprefix("agentflow.") if name.startswith("agentflow.") else ""


def violations(module: str, source: str) -> list[str]:
    """The imports of `source`, as the text of `module`, that go against an arrow, out of the wheel or to HEAVY."""
    rule = ARROWS[max((start for start in ARROWS if module.startswith(start)), key=len)]
    empty = {start.partition(".")[0] for start in rule}  # a package itself holds nothing
    free = ("", "version", "version.__version__", "version.pip_install", *empty)
    parts = module.split(".")
    allowed = [HEAVY_ALLOWED.get(".".join(parts[: number + 1]), set()) for number in range(len(parts))]
    barred = NOT_IN_THE_WHEEL | HEAVY - set().union(*allowed)
    return [
        f"{module} imports {name}"
        for name in imports(source, module)
        if not (_ours(name) in free or _ours(name).startswith(rule)) or name.partition(".")[0] in barred
    ]


def test_packages_hold_no_code_of_their_own() -> None:
    """Importing a package imports nothing else."""
    assert [name for name in PACKAGES if [*imports(MODULES[name].read_text())]] == []


def test_arrows_run_one_way() -> None:
    found = {module: violations(module, path.read_text()) for module, path in MODULES.items()}
    assert {module: wrong for module, wrong in found.items() if wrong} == {}


def rooms_of_rl(name: str) -> str:
    """The folder of a module of `rl`; other modules are rooms of their own."""
    parts = name.split(".")
    return ".".join(parts[:2]) if parts[0] == "rl" else name


@pytest.mark.parametrize("room", [str, rooms_of_rl])
def test_there_is_no_circle(room: Callable[[str], str]) -> None:
    """Neither of files nor of the folders of rl."""
    graph: dict[str, set[str]] = {}
    for name, path in MODULES.items():
        found = {room(_ours(one)) for one in imports(path.read_text(), name, named=False) if _ours(one) in MODULES}
        graph.setdefault(room(name), set()).update(found - {room(name)})
    list(TopologicalSorter(graph).static_order())


@pytest.mark.parametrize(("module", "source"), table(__file__, "violations.txt"))
def test_a_violation_is_seen(module: str, source: str) -> None:
    assert violations(module, source)


@pytest.mark.process
@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import agentflow", {"langgraph", "langchain_core", "pydantic", *HEAVY}),
        ("import agentflow.cli", {"langgraph", "langchain_core", "openai", "numpy", *HEAVY}),
        ("import agentflow.graph.agent, agentflow.graph.models.loading", {"mcp", "openai", *HEAVY}),
        ("import agentflow.rl.micro.chat_model", HEAVY),
        ("import agentflow.evals.atlas.oracle", HEAVY),
    ],
)
def test_importing_is_cheap(statement: str, absent: set[str]) -> None:
    program = f"{statement}\nimport sys\nprint(*(name.partition('.')[0] for name in sys.modules))"
    run = python("-c", program)
    assert run.returncode == 0, run.stderr
    assert not set(run.stdout.split()) & absent


def test_the_package_itself_imports_nothing_of_ours() -> None:
    """In bubblewrap a program's helper finds `agentflow/__init__.py`, the sandbox's files and their error alone: an
    import of `agentflow.version` here left the tier unusable."""
    tree = ast.parse((HOME / "__init__.py").read_text())
    found = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [ast.unparse(node) for node in found if "agentflow" in ast.unparse(node)] == []
