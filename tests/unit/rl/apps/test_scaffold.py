"""`agentflow init`: what can be seen of a graph, and files that are not overwritten."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint
from langgraph.graph import START, StateGraph
from langgraph.store.memory import InMemoryStore
from pydantic import BaseModel, Field
from typer.testing import CliRunner

from agentflow.cli import app
from agentflow.cli.group import MISUSED
from agentflow.graph.run.task import Task
from agentflow.rl.apps.scaffold import GraphFacts, facts, reward_text, rows
from tests.agents import exported, interrupting
from tests.agents.model import model


@dataclass
class Settings:
    user: str
    limit: int
    model: str = "m"


class Validated(BaseModel):
    user: str
    tags: list[str] = Field(default_factory=list)


class Wanted(TypedDict):
    topic: str
    pages: int | None


class State(Wanted):
    drafts: list[str]
    report: str


def book(flight: str) -> str:
    """Book a flight."""
    return "booked"


@entrypoint()
def texted(question: str) -> str:
    return question


def written(**compiled: Any) -> Any:
    builder = StateGraph(State, input_schema=Wanted)
    builder.add_node("write", lambda state: {"report": state["topic"]})
    builder.add_edge(START, "write")
    return builder.compile(**compiled)


def agent(**options: Any) -> Any:
    return create_agent(model, [book], **options)


asks = HumanInTheLoopMiddleware(interrupt_on={"book": True})


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (agent(), GraphFacts({}, result="messages", tools=("book",))),
        (
            agent(context_schema=Settings),
            GraphFacts({}, result="messages", tools=("book",), context={"user": "...", "limit": 1}),
        ),
        (
            agent(context_schema=Validated),
            GraphFacts({}, result="messages", tools=("book",), context={"user": "..."}),
        ),
        (
            agent(middleware=[asks]),
            GraphFacts({}, result="messages", tools=("book",), interrupts=("HumanInTheLoopMiddleware.after_model",)),
        ),
        (
            written(store=InMemoryStore(), checkpointer=InMemorySaver()),
            GraphFacts({"topic": "...", "pages": 1}, result="report", keeps=("store", "checkpointer")),
        ),
        (
            interrupting.two,
            GraphFacts({"question": "...", "said": []}, result="question", interrupts=("ask", "ask_too")),
        ),
        (
            interrupting.before,
            GraphFacts({"question": "...", "said": []}, result="question", interrupts=("answer",)),
        ),
        (exported.piped, GraphFacts({})),
        (exported.entered, GraphFacts({})),
        (texted, GraphFacts(None)),
    ],
    ids=["agent", "context", "validated", "approval", "fields", "interrupts", "before", "piped", "entrypoint", "text"],
)
def test_what_is_seen_of_a_graph(graph: Any, expected: GraphFacts) -> None:
    assert facts(graph) == expected


def test_tasks_have_the_graphs_own_fields() -> None:
    found = facts(written())
    assert [row["inputs"] for row in rows(found)] == [{"topic": "...", "pages": 1}] * 3
    assert [row["context"] for row in rows(facts(agent(context_schema=Settings)))] == [{"user": "...", "limit": 1}] * 3


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (GraphFacts(None, interrupts=("ask",)), "It is 21."),
        (GraphFacts({}, result="report"), {"report": "It is 21."}),
    ],
)
async def test_the_reward_that_is_written_works(found: GraphFacts, state: Any) -> None:
    module: dict[str, Any] = {}
    exec(reward_text(found), module)
    task = Task(id="1", question="?", gold="21")
    assert (module["score"](task, state), module["score"](task, {} if found.result else "No.")) == (1.0, 0.0)
    assert ("answer" in module, "play" in module) == (bool(found.interrupts), found.inputs is None)


AGENT = (
    "from langchain.agents import create_agent\nfrom tests.agents.model import model\nagent = create_agent(model, [])\n"
)


def test_files_are_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "begun_agent.py").write_text(AGENT)
    (tmp_path / "langgraph.json").write_text('{"graphs": {"mine": "./begun_agent.py:agent"}}')
    (tmp_path / "reward.py").write_text("mine = 1\n")
    done = CliRunner().invoke(app, ["init"])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "reward.py").read_text() == "mine = 1\n"
    assert [set(json.loads(line)) for line in (tmp_path / "tasks.jsonl").read_text().splitlines()] == [
        {"question", "answer"}
    ] * 3
    assert "agentflow try mine --tasks tasks.jsonl --reward reward:score" in done.stdout
    (tmp_path / "langgraph.json").write_text('{"graphs": {"mine": "./a.py:b", "other": "./a.py:c"}}')
    done = CliRunner().invoke(app, ["init"])
    assert done.exit_code == MISUSED
    assert "mine, other" in done.stderr
