"""Agents that know nothing of AgentFlow: every sampled token is trained on, under the path of its node."""

import importlib
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("verl")
pytest.importorskip("langchain.agents")

from agentflow.graph.run.task import Task
from agentflow.rl.apps.loading import load_app
from agentflow.rl.policy.chat import ChatRequest
from agentflow.rl.policy.chat_format import ChatFormat
from agentflow.rl.rollout.packing import pack
from agentflow.rl.rollout.rollout import Rollout, RolloutStatus, run
from tests.chat_templates import ScriptedPolicy, called, chat_format, needs_templates

pytestmark = needs_templates


@pytest.fixture(scope="module")
def known() -> ChatFormat:
    return chat_format("qwen2_5")


TASK = Task(id="1", question="What is 2 plus 3, times 4?", gold="20")


def call(name: str, **arguments: Any) -> str:
    return called("qwen2_5", name, arguments, tight=True)


def calculator(request: ChatRequest) -> str:
    """Adds, multiplies, and says the result."""
    results = [str(one["content"]) for one in request.messages if one["role"] == "tool"]
    if "5" not in results:
        return call("add", a=2, b=3)
    return "It is 20." if "20" in results else call("multiply", a=5, b=4)


def memory(request: ChatRequest) -> str:
    asked = [str(one["content"]) for one in request.messages if one["role"] == "user"]
    return "It is 20." if "Now give" in asked[-1] else "2 plus 3 is 5."


def structured(request: ChatRequest) -> str:
    return call("Sum", a=5, b=4, operator="times")


AGENTS: list[tuple[str, Callable[[ChatRequest], str], list[str], int]] = [
    ("tools", calculator, ["model"] * 3, 1),
    ("fan_out", lambda request: "20", [*["expert"] * 3, "editor"], 4),
    ("memory", memory, ["think", "summarise", "answer"], 2),
    ("structured", structured, ["work_out"], 1),
]  # fmt: skip
"""Agent, what its policy samples, the paths of its calls, and the rows that they are trained in."""


async def rollout(
    name: str, script: Callable[[ChatRequest], str], known: ChatFormat, **options: Any
) -> tuple[Rollout, ScriptedPolicy]:
    app = load_app(f"examples.agents.{name}:agent", tasks="sums.jsonl", reward="examples.agents.sums:score", **options)
    policy = ScriptedPolicy("qwen2_5", script, known)
    return await run(app, app.built(), TASK, policy, id="r", seconds=3600), policy


@pytest.mark.parametrize(("name", "script", "paths", "rows"), AGENTS, ids=[name for name, *_ in AGENTS])
async def test_every_token_is_trained_on(
    name: str, script: Callable[[ChatRequest], str], paths: list[str], rows: int, known: ChatFormat
) -> None:
    found, policy = await rollout(name, script, known)
    assert (found.status, found.reward) == (RolloutStatus.OK, 1.0), found.trace.error
    assert [call.node for call in found.calls] == paths
    assert [call.response_ids.tolist() for call in found.calls] == [reply.token_ids for reply in policy.sampled]
    packed = pack(found.calls, limit=100_000)
    assert len(packed) == rows
    assert sum(sum(row.mask) for row in packed) == sum(len(reply.token_ids) for reply in policy.sampled)


def script_of(*replies: str) -> tuple[Callable[[ChatRequest], str], list[ChatRequest]]:
    """A script that replies in turn, and the requests that it got."""
    left, requests = iter(replies), list[ChatRequest]()

    def script(request: ChatRequest) -> str:
        requests.append(request)
        return next(left)

    return script, requests


async def test_a_call_that_cannot_be_read_is_text_for_the_graph_and_a_fault(known: ChatFormat) -> None:
    """The call before it has arguments that the tool refuses, which the policy reads as the tool's result."""
    script, requests = script_of(call("add", a="two", b=3), '<tool_call>\n{"name": "add"')
    found, _ = await rollout("tools", script, known)
    assert (found.status, found.faults) == (RolloutStatus.OK, [False, True])
    assert requests[1].messages[-1]["role"] == "tool"
    assert "two" in requests[1].messages[-1]["content"]
    assert found.trace.answer == '<tool_call>\n{"name": "add"'


@pytest.mark.parametrize(("handled", "status"), [(True, RolloutStatus.OK), (False, RolloutStatus.TOOL_FAILED)])
async def test_a_tool_that_raises(
    monkeypatch: pytest.MonkeyPatch, known: ChatFormat, handled: bool, status: RolloutStatus
) -> None:
    """Its error is what the policy reads next, if the agent handles it, else the rollout's end; never a reward."""
    from langchain_core.tools import StructuredTool, ToolException

    tools = importlib.import_module("examples.agents.tools")

    def add(a: int, b: int) -> int:
        """Add two numbers."""
        raise ToolException("the adder is broken")

    broken = StructuredTool.from_function(add, handle_tool_error=handled)
    agent = importlib.import_module("langchain.agents").create_agent(tools.model, [broken])
    monkeypatch.setattr(tools, "agent", agent)
    script, requests = script_of(call("add", a=2, b=3), "It is 20.")
    found, _ = await rollout("tools", script, known)
    assert found.status == status
    assert (found.reward, len(found.calls)) == ((1.0, 2) if handled else (0.0, 1))
    assert "the adder is broken" in (requests[-1].messages[-1]["content"] if handled else found.trace.error)


def _add(a: int, b: int) -> int:
    """Add two numbers."""
    if a < 0:
        raise RuntimeError("the adder is broken")
    if b > 99:
        raise ValueError("b is too large")
    return a + b


@pytest.mark.parametrize(
    ("sampled", "status"),
    [
        ('<tool_call>\n{"name": "add"', RolloutStatus.POLICY_FAILED),  # unreadable
        (call("subtract", a=2, b=3), RolloutStatus.POLICY_FAILED),  # not offered
        (call("add", a="two", b=3), RolloutStatus.POLICY_FAILED),  # refused by the schema
        (call("add", a=2, b=100), RolloutStatus.POLICY_FAILED),  # refused by the tool
        (call("add", a=2, b=3), RolloutStatus.POLICY_FAILED),  # for ever
        (call("add", a=-2, b=3), RolloutStatus.TOOL_FAILED),
        ("It is 20.", RolloutStatus.CRASHED),  # a reply that the agent must expect
    ],
)
async def test_what_breaks_a_graph_has_a_cause(
    monkeypatch: pytest.MonkeyPatch, known: ChatFormat, sampled: str, status: RolloutStatus
) -> None:
    from langchain_core.messages import ToolMessage
    from langchain_core.tools import tool
    from langgraph.graph import START, MessagesState, StateGraph

    module = importlib.import_module("examples.agents.tools")
    tools = {"add": tool("add")(_add)}
    bound = module.model.bind_tools(list(tools.values()))

    async def model(state: MessagesState) -> Any:
        return {"messages": [await bound.ainvoke(state["messages"])]}

    async def act(state: MessagesState) -> Any:
        first = state["messages"][-1].tool_calls[0]  # type: ignore[union-attr]
        result = await tools[first["name"]].ainvoke(first["args"])
        return {"messages": [ToolMessage(str(result), tool_call_id=first["id"])]}

    builder = StateGraph(MessagesState).add_node(model).add_node(act).add_edge(START, "model")
    brittle = builder.add_edge("model", "act").add_edge("act", "model").compile()
    monkeypatch.setattr(module, "agent", brittle.with_config(recursion_limit=6))
    found, _ = await rollout("tools", lambda request: sampled, known)
    assert (found.status, found.reward, bool(found.calls)) == (status, 0.0, True)
