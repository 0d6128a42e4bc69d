"""`agentflow init`: files to fill in that fit a graph, and are not overwritten."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langgraph.func import entrypoint
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel, Field

from agentflow.cli.group import MISUSED
from agentflow.graph.run.task import Task
from agentflow.rl.apps.scaffold import reward_text, rows
from tests.agents import exported
from tests.agents.model import model
from tests.command_line import call, succeeds


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


def written() -> Any:
    builder = StateGraph(State, input_schema=Wanted)
    builder.add_node("write", lambda state: {"report": state["topic"]})
    builder.add_edge(START, "write")
    return builder.compile()


class Asked(MessagesState):
    day: str
    sizes: list[int]
    limits: dict[str, int]
    tries: int


class Diary(Asked):
    notes: list[str]


def asked() -> Any:
    builder = StateGraph(Diary, input_schema=Asked)
    builder.add_node("write", lambda state: {"notes": [state["day"]]})
    builder.add_edge(START, "write")
    return builder.compile()


def agent(**options: Any) -> Any:
    return create_agent(model, [book], **options)


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (agent(), {"question"}),
        (agent(context_schema=Settings), {"question", "context.user", "context.limit"}),
        (agent(context_schema=Validated), {"question", "context.user"}),
        (written(), {"inputs.topic", "inputs.pages"}),
        (asked(), {"inputs.messages", "inputs.day", "inputs.sizes", "inputs.limits", "inputs.tries"}),
        (exported.piped, {"question"}),
        (exported.entered, {"question"}),
        (texted, {"question"}),
    ],
    ids=["agent", "context", "validated", "fields", "beside", "piped", "entrypoint", "text"],
)
def test_tasks_have_the_fields_that_the_graph_takes(graph: Any, expected: set[str]) -> None:
    found = [
        {key if isinstance(value, str) else f"{key}.{name}" for key, value in row.items() for name in value}
        for row in rows(graph)
    ]
    assert found == [expected | {"answer"}] * 3


def test_the_fields_of_tasks_have_the_types_that_the_graph_declares() -> None:
    message = {"role": "user", "content": "Question 2?"}
    values = {"messages": [message], "day": "...", "sizes": ["..."], "limits": {}, "tries": 1}
    assert rows(asked())[1]["inputs"] == values


@pytest.mark.parametrize(
    ("graph", "right", "wrong"),
    [
        (texted, "It is 21.", "No."),
        (written(), {"topic": "21", "report": "It is 21."}, {"topic": "21", "report": "No."}),
        (agent(), {"messages": [AIMessage("21")]}, {"messages": [AIMessage("No.")]}),
    ],
    ids=["text", "fields", "messages"],
)
def test_the_reward_that_is_written_works(graph: Any, right: Any, wrong: Any) -> None:
    module: dict[str, Any] = {}
    exec(reward_text(graph), module)
    task = Task(id="1", question="?", gold="21")
    assert (module["score"](task, right), module["score"](task, wrong)) == (1.0, 0.0)
    assert module["score"](Task(id="1", question="?", gold="a score", data={"aliases": ["21"]}), right) == 1.0
    assert module["score"](Task(id="1", question="?", data={"aliases": "1"}), right) == 0.0, "there is no answer"
    asked = {"action_requests": [{"name": "book", "args": {}}]}
    assert module["answer"](task, asked) == {"decisions": [{"type": "approve"}]}


AGENT = (
    "from langchain.agents import create_agent\nfrom tests.agents.model import model\nagent = create_agent(model, [])\n"
)


def test_files_are_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "begun_agent.py").write_text(AGENT)
    (tmp_path / "langgraph.json").write_text('{"graphs": {"my agent": "./begun_agent.py:agent"}}')
    (tmp_path / "reward.py").write_text("mine = 1\n")
    done = succeeds("init")
    assert (tmp_path / "reward.py").read_text() == "mine = 1\n"
    assert [set(json.loads(line)) for line in (tmp_path / "tasks.jsonl").read_text().splitlines()] == [
        {"question", "answer"}
    ] * 3
    assert "agentflow try 'my agent' --tasks tasks.jsonl --reward reward:score" in done.stdout
    (tmp_path / "langgraph.json").write_text('{"graphs": {"mine": "./a.py:b", "other": "./a.py:c"}}')
    done = call("init")
    assert done.exit_code == MISUSED
    assert "mine, other" in done.stderr
