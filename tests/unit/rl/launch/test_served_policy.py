"""Models that are not trained play an app: a server's, and the agent's own."""

import asyncio
from typing import Any, Literal

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolCall
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, Field

pytest.importorskip("transformers")

from agentflow.graph.run.task import Task
from agentflow.rl.apps.agent import inputs
from agentflow.rl.apps.trainable import Trainable
from agentflow.rl.launch.preview import Preview, play
from agentflow.rl.launch.served_policy import (
    MOST_CALLS,
    MOST_TEXT,
    OWN,
    SCRIPTED,
    ServedPolicy,
    is_served,
    scripted,
    trial_policy,
)
from agentflow.rl.policy.chat import ChatRequest, TokenReply
from agentflow.rl.settings import TrainingSettings, compose_settings
from tests.fake_openai import FakeOpenAI
from tests.waiting import LAST_RESORT

pytest.importorskip("verl")


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


CALL = {"name": "add", "args": {"a": 20, "b": 1}, "id": "call00001"}
WIRE = {"id": "call00001", "type": "function", "function": {"name": "add", "arguments": '{"a": 20, "b": 1}'}}


class Own(GenericFakeChatModel):
    """The agent's own model, which calls a tool and repeats the result."""

    messages: Any = None
    asked: list[tuple[list[str], list[str]]] = Field(default_factory=list)

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools])

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Any:
        names = [tool["function"]["name"] for tool in kwargs["tools"]]
        self.asked.append(([message.type for message in messages], names))
        last = messages[-1]
        said = AIMessage(last.text) if last.type == "tool" else AIMessage("", tool_calls=[ToolCall(**CALL)])
        self.messages = iter([said])
        return super()._generate(messages)


def settings(*chosen: str) -> TrainingSettings:
    return TrainingSettings.of(compose_settings("atlas-cpu", ["app=m:agent", *chosen]))


async def played(model: Any, spec: str, rollouts: int = 1) -> Preview:
    app = Trainable(
        name="adds",
        graph=create_agent(model, [add]),
        nodes=(),
        tasks=lambda split, number: [],
        inputs=inputs,
        reward=lambda task, state: float(task.gold in state["messages"][-1].text),
    )
    policy, _ = trial_policy(spec, settings())
    task = Task(id="1", question="What is 20 plus 1?", gold="21")
    return await play(app, app.built(), [task], policy, rollouts=rollouts, seconds=LAST_RESORT, at_once=rollouts > 1)


async def test_the_agents_own_model_plays_with_its_own_options(monkeypatch: pytest.MonkeyPatch) -> None:
    own, ask, asked = Own(), ServedPolicy.__call__, list[ChatRequest]()

    async def counted(policy: ServedPolicy, request: ChatRequest) -> TokenReply:
        asked.append(request)
        assert len(asked) <= 2, "its own model was played by the policy in turn, without an end"
        return await ask(policy, request)

    monkeypatch.setattr(ServedPolicy, "__call__", counted)
    preview = await played(own, OWN)
    assert own.asked == [(["human"], ["add"]), (["human", "ai", "tool"], ["add"])]
    assert [(one.status, one.reward) for one in preview.rollouts] == [("ok", 1.0)]
    assert [len(row.response_ids) > 0 for row in preview.rows] == [True]


async def test_a_server_is_offered_the_tools_and_told_the_results() -> None:
    def script(body: dict[str, Any]) -> Any:
        message: dict[str, Any] = {"role": "assistant", "content": "21"}
        if body["messages"][-1]["role"] == "user":
            message = {"role": "assistant", "content": None, "tool_calls": [WIRE]}
        return 200, {"id": "x", "object": "chat.completion", "choices": [{"index": 0, "message": message}]}

    with FakeOpenAI(script) as server:
        model = ChatOpenAI(model="m", base_url="http://127.0.0.1:9/v1", api_key="none", max_retries=0, max_tokens=9)
        preview = await played(model, f"openai-compatible:any@{server.base_url}")
    assert [(one.status, one.reward) for one in preview.rollouts] == [("ok", 1.0)]
    first, second = server.bodies
    assert [tool["function"]["name"] for tool in first["tools"]] == ["add"]
    assert (first["temperature"], first.get("max_tokens", first.get("max_completion_tokens"))) == (1.0, 9)
    assert [message["role"] for message in second["messages"]] == ["user", "assistant", "tool"]
    assert second["messages"][1]["tool_calls"] == [WIRE]
    (row,) = preview.rows
    assert len(row.response_ids) > sum(row.mask) > 0


async def test_a_script_plays_each_tool_once_in_several_rollouts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ask, met = ServedPolicy.__call__, asyncio.Barrier(3)

    async def together(policy: ServedPolicy, request: ChatRequest) -> TokenReply:
        await met.wait()
        return await ask(policy, request)

    monkeypatch.setattr(ServedPolicy, "__call__", together)
    preview = await played(Own(), SCRIPTED, rollouts=3)
    assert [(one.status, len(one.calls), one.trace.answer) for one in preview.rollouts] == [("ok", 2, "2")] * 3
    assert len(preview.rows) == 3


class Order(BaseModel):
    """Order."""

    size: Literal["s", "m"]
    note: str = "none"


class Note(BaseModel):
    """Note."""

    text: str


TOOLS = [convert_to_openai_tool(one) for one in (add, Order)]
ADDED, ORDERED = ("add", {"a": 1, "b": 1}), ("Order", {"size": "s"})


@pytest.mark.parametrize(
    ("made", "choice", "expected"),
    [
        ([], "auto", ADDED),
        (["add"], "auto", ORDERED),
        (["add", "Order"], "auto", "the last result"),
        (["add", "Order"], "required", ADDED),
        ([], "Order", ORDERED),
        ([str(n) for n in range(MOST_CALLS)], "auto", "the last result"),
    ],
)
def test_what_the_script_says(made: list[str], choice: str, expected: Any) -> None:
    calls = [{"function": {"name": name, "arguments": {}}} for name in made]
    messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "", "tool_calls": calls}]
    said = scripted(ChatRequest([*messages, {"role": "tool", "content": "the last result"}], TOOLS, choice))
    found = [(call["name"], call["args"]) for call in said.tool_calls]
    assert found == ([] if isinstance(expected, str) else [expected])
    assert said.text == (expected if isinstance(expected, str) else "")


def test_what_the_script_repeats_is_short() -> None:
    """Nodes that quote each other would double their prompts with each call (TradingAgents)."""
    asked = [{"role": "user", "content": "long " * 1000}]
    (call,) = scripted(ChatRequest(asked, [convert_to_openai_tool(Note)])).tool_calls
    assert (len(call["args"]["text"]), len(scripted(ChatRequest(asked)).text)) == (MOST_TEXT, MOST_TEXT)


def test_which_models_are_served() -> None:
    served, folders = (
        ["own", "scripted", "ollama:qwen2.5:7b", "vllm:m@http://127.0.0.1:1/v1"],
        ["embedded:seed", "", "no/folder"],
    )
    assert [spec for spec in [*served, *folders] if is_served(spec)] == served
