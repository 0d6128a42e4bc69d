"""Graphs as people export them, each opened for one rollout: its context, config, store, interrupts and input."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langgraph.cache.memory import InMemoryCache
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.memory import InMemoryStore

from agentflow.cli.train import AppOptions
from agentflow.graph.run.task import Task
from agentflow.rl.apps.loading import load_app
from agentflow.rl.apps.trainable import AppError
from agentflow.rl.rollout.rollout import Rollout, RolloutStatus
from tests.agents import remembering
from tests.graphs import Server, rollout

ROWS: list[dict[str, Any]] = [
    {"question": "q1"},
    {"question": "q2", "context": {"greeting": "Bye"}},
]


@pytest.fixture
def tasks(tmp_path: Path) -> str:
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return str(path)


async def played(name: str, tasks: str, task: Task | None = None, **options: Any) -> tuple[Rollout, Server]:
    app = load_app(name, tasks=tasks, test=tasks, reward="builtins:bool", **options)
    server = Server("fine")
    app = replace(app, reward=lambda task, state: 1.0)
    return await rollout(app, server, task=task or app.tasks("train", 1)[0]), server


def prompts(server: Server) -> list[str]:
    return [request.messages[-1]["content"] for request in server.requests]


@pytest.mark.parametrize("name", ["builder", "entered", "made_later", "with_session", "made_with", "piped"])
@pytest.mark.parametrize("config", ["", '{"name": "x"}'])
async def test_what_people_export(name: str, config: str, tasks: str) -> None:
    found, server = await played(f"tests.agents.exported:{name}", tasks, **({"config": config} if config else {}))
    assert (found.status, len(found.calls), prompts(server)) == (RolloutStatus.OK, 1, ["q1"]), found.trace.error
    assert found.calls[0].node.rpartition("/")[2] in ("answer", "entered")


async def test_files_and_the_names_of_langgraph_json(
    tasks: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of a package has relative imports."""
    package = tmp_path / "src" / "own_agent"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "parts.py").write_text("from tests.agents.exported import builder\n")
    (package / "graph.py").write_text("from .parts import builder as graph\n")
    (tmp_path / "json.py").write_text("from tests.agents.exported import builder as graph\n")  # not Python's
    (tmp_path / "langgraph.json").write_text('{"graphs": {"mine": "./src/own_agent/graph.py:graph"}}')
    monkeypatch.chdir(tmp_path)
    for name in (f"{package}/graph.py:graph", "src/own_agent/graph.py:graph", "json.py:graph", "mine"):
        found, _ = await played(name, tasks)
        assert (found.status, found.calls[0].node) == (RolloutStatus.OK, "answer")


def test_an_app_and_its_options_are_named_on_the_command_line() -> None:
    pytest.importorskip("hydra")
    said = AppOptions(config="{}").settings(["tests.agents.exported:builder", "answer=a:b", "steps=2"])
    assert said == ["app='tests.agents.exported:builder'", "options.answer=a:b", "steps=2", "options.config='{}'"]


async def test_a_rollout_may_be_the_users_own_call(tasks: str) -> None:
    found, server = await played("tests.agents.exported:builder", tasks, rollout="tests.agents.exported:play")
    assert (found.status, prompts(server)) == (RolloutStatus.OK, ["first", "q1"]), found.trace.error
    assert [call.node for call in found.calls] == ["answer", "answer"]


@pytest.mark.parametrize(
    ("context", "row", "said"),
    [
        ("", 0, "Hello somebody, 0 known"),
        ('{"user_id": "me"}', 0, "Hello me, 0 known"),
        ({"user_id": "me"}, 1, "Bye me, 0 known"),
    ],
)
async def test_context_of_the_schema_of_options_and_of_the_task(context: Any, row: int, said: str, tasks: str) -> None:
    """LangChain's own templates crashed, as their context was None, and so was their store."""
    app = load_app("tests.agents.remembering:bare", tasks=tasks, test=tasks, reward="builtins:bool", context=context)
    server = Server("fine")
    found = await rollout(app, server, task=app.tasks("train", 9)[row])
    assert prompts(server) == [said], found.trace.error


async def test_config_of_options_and_of_the_task(tasks: str) -> None:
    limited = Task(id="1", question="q", data={"config": {"recursion_limit": 1}})
    for found, _ in (
        await played("tests.agents.remembering:bare", tasks, limited),
        await played("tests.agents.remembering:bare", tasks, config={"recursion_limit": 1}),
    ):
        assert type(found.trace.failure).__name__ == "GraphRecursionError"


async def test_nothing_is_left_of_an_earlier_rollout(tasks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory of one task was in the prompt of the next, and a cache answered four of six rollouts."""
    store, cache = InMemoryStore(), InMemoryCache[Any]()
    graph = remembering.builder.compile(checkpointer=remembering.saver, store=store, cache=cache)
    monkeypatch.setattr(remembering, "graph", graph, raising=False)
    monkeypatch.setattr(remembering, "piped", graph | (lambda state: state), raising=False)
    for name in ("graph", "graph", "piped"):
        found, server = await played(f"tests.agents.remembering:{name}", tasks)
        assert (found.status, prompts(server)) == (RolloutStatus.OK, ["Hello somebody, 0 known"]), found.trace.error
    assert not list(remembering.saver.list(None))
    assert not store.search(("somebody",))
    assert graph.store is store


async def test_the_cache_of_a_subgraph_is_refused(tasks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = StateGraph(MessagesState)
    builder.add_node("inner", remembering.builder.compile(cache=InMemoryCache[Any]()))
    builder.add_edge(START, "inner")
    monkeypatch.setattr(remembering, "graph", builder, raising=False)
    found, _ = await played("tests.agents.remembering:graph", tasks)
    assert isinstance(found.trace.failure, AppError)


@pytest.mark.parametrize(
    ("name", "prompt"), [("one", "q Which one? That."), ("two", "q Which one? That. How many? That."), ("before", "q")]
)
async def test_an_interrupt_is_answered_or_an_error_that_names_its_node(name: str, prompt: str, tasks: str) -> None:
    """A run that stopped half-way counted as ok, and was rewarded."""
    graph, task = f"tests.agents.interrupting:{name}", Task(id="1", question="q", data={"inputs": {"question": "q"}})
    found, server = await played(graph, tasks, task)
    assert (found.status, server.requests) == (RolloutStatus.CRASHED, [])
    assert ("answer" if name == "before" else "ask") in found.trace.error
    found, server = await played(graph, tasks, task, answer="tests.agents.interrupting:reply")
    assert (found.status, prompts(server)) == (RolloutStatus.OK, [prompt]), found.trace.error


async def test_a_question_for_a_graph_that_has_no_messages_is_refused(tasks: str) -> None:
    """LangGraph drops what its input does not have, and the agent researched 'None'."""
    found, server = await played("tests.agents.interrupting:before", tasks)
    assert isinstance(found.trace.failure, AppError)
    assert found.trace.failure.code == "wrong_inputs"
    assert "question" in found.trace.error
    assert not server.requests


async def test_a_field_of_the_input_that_a_node_misses_is_named_as_the_tasks(tasks: str) -> None:
    task = Task(id="1", question="q", data={"inputs": {"messages": [("user", "q")]}})
    found, _ = await played("tests.agents.exported:dated", tasks, task)
    assert found.status == RolloutStatus.CRASHED
    assert "'day'" in found.trace.error
    assert "`inputs`" in found.trace.error
    task.data["inputs"]["day"] = "1 May"
    found, _ = await played("tests.agents.exported:dated", tasks, task)
    assert "`inputs`" not in found.trace.error
    found, _ = await played("tests.agents.exported:unhashable", tasks, task)
    assert isinstance(found.trace.failure, KeyError)


@pytest.mark.parametrize("options", [{"context": "{"}, {"config": "nowhere.json"}, {"answer": "json:__doc__"}])
def test_options_that_are_wrong(options: dict[str, Any], tasks: str) -> None:
    with pytest.raises(AppError):
        load_app("tests.agents.exported:builder", tasks=tasks, reward="builtins:bool", **options)
