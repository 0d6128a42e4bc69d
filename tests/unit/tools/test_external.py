"""Tools by module:attribute: what is taken, and what is refused in one line."""

import contextlib
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.tools import BaseTool, BaseToolkit, StructuredTool, tool

from agentflow.graph import toolbox
from agentflow.graph.context import Context
from agentflow.graph.toolbox import Toolbox
from agentflow.nodes import planner
from agentflow.tools import external
from agentflow.tools.catalogue import STANDARD_TOOLS
from agentflow.tools.external import SpecError, Unavailable, check_names, load
from agentflow.tools.mcp.spec import ServerSpec
from tests.cases import table
from tests.failing import fails

HERE = __name__


@tool
def search(query: str) -> str:
    """Searches."""
    return query


@tool
def look_up(name: str) -> str:
    """Looks up."""
    return name


both = [search, look_up]
twice = [search, search]
number = 42
unwritable = search.model_copy(update={"name": "x\nTool: python_coder"})


def made() -> list[BaseTool]:
    return [search]


async def made_later() -> list[BaseTool]:
    return [search]


def unlicensed() -> BaseTool:
    raise RuntimeError("no licence\nfile")


def plain(query: str) -> str:
    return query


class Kit(BaseToolkit):
    def get_tools(self) -> list[BaseTool]:
        return both


class Unset(Kit):
    def get_tools(self) -> list[BaseTool]:
        raise RuntimeError("no path")


kit, unset, nothing_in_it = Kit(), Unset(), list[BaseTool]()


def made_kit() -> BaseToolkit:
    return kit


def count(text: str) -> int:
    """Counts letters."""
    return len(text)


mixed, undescribed = [search, count], [search, plain]


@pytest.mark.parametrize(
    ("attribute", "names"),
    [
        ("search", ["search"]),
        ("both", ["search", "look_up"]),
        ("made", ["search"]),
        ("made_later", ["search"]),
        ("mixed", ["search", "count"]),
        *((name, ["search", "look_up"]) for name in ("kit", "Kit", "made_kit")),
    ],
)
async def test_what_names_tools(attribute: str, names: list[str]) -> None:
    assert [found.name for found in await load(f"{HERE}:{attribute}")] == names
    assert [found.name for found in await load(f"my={HERE}:{attribute}")] == [f"my_{name}" for name in names]


@pytest.mark.parametrize(("spec", "code", "named"), table(__file__, "external.txt"))
async def test_what_names_none_says_why_on_one_line(spec: str, code: str, named: str) -> None:
    with fails(SpecError, code, named):
        await load(spec)


@pytest.mark.parametrize("spec", ["tools:search", "tools.py:search", "./tools.py:search", "cProfile:search"])
async def test_a_module_beside_the_user_precedes_others_of_its_name(
    spec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("tools", "cProfile", "their_part"):
        (tmp_path / f"{name}.py").write_text("from their_part import search\n")
        monkeypatch.setitem(sys.modules, name, sys)  # restored at the end
        del sys.modules[name]
    (tmp_path / "their_part.py").write_text("from tests.unit.tools.test_external import search\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [path for path in sys.path if path])
    before = [*sys.path]
    assert [found.name for found in await load(spec)] == ["search"]
    assert sys.path == [*before, str(tmp_path)]


async def test_without_its_package_a_tool_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with fails(Unavailable, "missing_package", "[mcp]"):
        await load("mcp:http://127.0.0.1:1/mcp")


async def test_a_server_that_cannot_be_used_is_left_out_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    down = ["a", "b"]

    async def offered(server: ServerSpec) -> list[BaseTool]:
        if server.name in down:
            raise Unavailable(f"{server.name} did not start", code="unreachable")
        return [search]

    monkeypatch.setattr(external, "tools_of", offered)
    (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": {"a": {"command": "x"}, "b": {"command": "x"}}}))
    spec = f"mcp:{tmp_path}/servers.json"
    with fails(Unavailable, "unreachable", "a did not start"):
        await load(spec)
    down.remove("b")
    monkeypatch.setattr(toolbox, "RETRY_SECONDS", 0.0)
    box, context = Toolbox([spec]), Context(tools=["base_generator"])
    found = await box.examine(context)
    assert [*found.tools] == ["base_generator", "search"]
    assert found.unavailable == {f"{spec}#a": "a did not start"}
    down.clear()
    found = await box.examine(context)
    assert [*found.tools] == ["base_generator", "a_search", "b_search"]
    assert not found.unavailable


async def test_names_of_mcp_servers_are_made_distinct_or_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def offered(server: ServerSpec) -> list[BaseTool]:
        return [
            StructuredTool.from_function(str.upper, name=name, description="d")
            for name in ("hello", f"only-{server.name}"[:8], "日本語")
        ]

    (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": {"a b": {"command": "x"}, "c": {"command": "x"}}}))
    monkeypatch.setattr(external, "tools_of", offered)
    for prefix in ("", "my_"):
        spec = f"mcp:{tmp_path}/servers.json"
        found = await load(f"my={spec}" if prefix else spec)
        assert [tool.name for tool in found] == [
            f"{prefix}{name}" for name in ("a_b_hello", "only-a b", "c_hello", "only-c")
        ]
    assert len(caplog.records) == 4


def test_names_that_read_alike_collide() -> None:
    for name in ("web-search", "Web_Search", "websearch", "web_search_tool", "web search"):
        with fails(SpecError, "ambiguous_name"):
            check_names([("web_search", "us"), (name, "them")])


@given(st.lists(st.text(st.sampled_from("abAB01_-./ tol"), min_size=1, max_size=12), min_size=1, max_size=4))
def test_a_planner_can_write_every_name_that_is_accepted(names: list[str]) -> None:
    accepted = list(STANDARD_TOOLS)
    for name in names:
        with contextlib.suppress(SpecError):
            check_names([(other, "them") for other in [*accepted, name]])
            accepted.append(name)
    for name in accepted:
        assert planner.parse(f"Sub-Goal: x\nTool: {name}\nContext: y", accepted).tool == name
