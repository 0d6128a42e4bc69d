"""Models that are not trained play an app: a server's, and the agent's own."""

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolCall
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_openai import ChatOpenAI
from pydantic import Field

pytest.importorskip("transformers")

from agentflow.graph.run.task import Task
from agentflow.rl.apps.agent import inputs
from agentflow.rl.apps.trainable import AppError, Trainable
from agentflow.rl.launch.preview import Preview, play
from agentflow.rl.launch.served_policy import OWN, ServedPolicy, is_served, trial_policy
from agentflow.rl.policy.chat import ChatRequest, TokenReply
from agentflow.rl.settings import TrainingSettings, compose_settings
from tests.fake_openai import FakeOpenAI

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


async def played(model: Any, spec: str, *, tools: bool = True) -> Preview:
    app = Trainable(
        name="adds",
        graph=create_agent(model, [add]),
        nodes=(),
        tasks=lambda split, number: [],
        inputs=inputs,
        reward=lambda task, state: float(task.gold in state["messages"][-1].text),
    )
    policy, _ = trial_policy(spec, settings(), tools=tools)
    task = Task(id="1", question="What is 20 plus 1?", gold="21")
    return await play(app, app.built(), [task], policy, rollouts=1, seconds=60)


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


async def test_a_template_without_tools_is_told_by_code() -> None:
    with pytest.raises(AppError) as refused:
        await played(Own(), OWN, tools=False)
    assert refused.value.code == "no_tools"


def test_which_models_are_served() -> None:
    served, folders = ["own", "ollama:qwen2.5:7b", "vllm:m@http://127.0.0.1:1/v1"], ["embedded:seed", "", "no/folder"]
    assert [spec for spec in [*served, *folders] if is_served(spec)] == served
