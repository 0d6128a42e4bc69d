"""The policy as a chat model, and in the place of a graph's own."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, copy_context
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolCall, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import MessagesState
from openai import APIConnectionError
from pydantic import BaseModel, SecretStr

from agentflow.graph.context import Sampling
from agentflow.graph.models.loading import load_model
from agentflow.graph.tracing.observer import Observer
from agentflow.rl.policy.chat import ANY_OBJECT, ChatRequest, Conversations, TokenReply
from agentflow.rl.policy.policy import Policy, PolicyMisused, serving
from agentflow.rl.policy.standing_in import stand_in
from agentflow.rl.rollout.calls import TokenCollector
from agentflow.rl.rollout.capture import redirect_openai
from tests.agents import structured
from tests.graphs import Server, chain


async def ainvoke(model: Any, asked: Any, **options: Any) -> str:
    return str((await model.ainvoke(asked, **options)).text)


async def astream(model: Any, asked: Any) -> str:
    return "".join([str(chunk.text) async for chunk in model.astream(asked)])


async def abatch(model: Any, asked: Any) -> str:
    return str((await model.abatch([asked, asked]))[1].text)


async def agenerate(model: Any, asked: Any) -> str:
    messages = model._convert_input(asked).to_messages()
    return str((await model.agenerate([messages])).generations[0][0].text)


WAYS: dict[str, Callable[[Any, Any], Awaitable[str]]] = {
    "ainvoke": ainvoke,
    "astream": astream,
    "abatch": abatch,
    "agenerate": agenerate,
    "callbacks": lambda model, asked: ainvoke(model, asked, config={"callbacks": []}),
    "invoke": lambda model, asked: asyncio.to_thread(lambda: str(model.invoke(asked).text)),
    "stream": lambda model, asked: asyncio.to_thread(lambda: "".join(str(one.text) for one in model.stream(asked))),
}
"""The ways in which a node may call its model."""


class Sum(BaseModel):
    """A sum."""

    a: int
    b: int


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def graph(node: Any, name: str = "node") -> Any:
    return chain(MessagesState, **{name: node})


@contextmanager
def recording(server: Server, *nodes: str) -> Iterator[tuple[TokenCollector, dict[str, Any]]]:
    """A rollout in which the policy stands in for the models of `nodes`; its collector, and the graph's config."""
    stand_in()
    collector = TokenCollector("r", nodes)
    observer = Observer(collector, raise_error=True)
    with serving(server, observer, nodes):
        yield collector, {"callbacks": [observer]}


def outside(**fields: Any) -> ChatOpenAI:
    """A model of a server that does not exist."""
    return ChatOpenAI(model="m", base_url="http://127.0.0.1:9/v1", api_key=SecretStr("none"), max_retries=0, **fields)


def asking(model: Any) -> Any:
    """A node that asks a model."""

    async def node(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    return node


QUESTION: dict[str, list[AnyMessage]] = {"messages": [HumanMessage("q")]}


async def test_a_call_carries_roles_tool_calls_and_the_callers_limits() -> None:
    server, call = Server("fine"), ToolCall(name="add", args={"a": 1}, id="7")
    said = [SystemMessage("s"), HumanMessage("h"), AIMessage("", tool_calls=[call]), ToolMessage("3", tool_call_id="7")]
    with serving(server):
        reply = await load_model("policy", Sampling(max_tokens=9)).ainvoke(said, stop=["x"])
    [request] = server.requests
    system, human, asked, result = request.messages
    assert [(one["role"], one["content"]) for one in (system, human)] == [("system", "s"), ("user", "h")]
    assert asked["tool_calls"] == [{"type": "function", "id": "7", "function": {"name": "add", "arguments": {"a": 1}}}]
    assert result == {"role": "tool", "content": "3", "tool_call_id": "7"}
    assert (request.sampling.max_tokens, request.sampling.stop) == (9, ("x",))
    assert reply.response_metadata["token_ids"] == [2]


async def test_outside_of_training_the_fallback_answers() -> None:
    model = Policy(fallback="atlas-oracle")
    assert (await model.ainvoke([HumanMessage("hello")])).text == "Answer: unknown\nVerdict: stop"
    assert (await asyncio.to_thread(model.invoke, "hello")).text == "Answer: unknown\nVerdict: stop"


@pytest.mark.parametrize("form", [add, add.func, Sum, {"name": "Sum", "description": "A sum.", "input_schema": {}}])  # type: ignore[attr-defined]
@pytest.mark.parametrize(("choice", "asked"), [(None, "auto"), ("any", "required"), ("required", "required")])
async def test_tools_of_every_form_are_offered(form: Any, choice: str | None, asked: str) -> None:
    server = Server("", ToolCall(name="add", args={"a": 1, "b": 2}, id="1"))
    with serving(server):
        reply = await Policy().bind_tools([form], tool_choice=choice).ainvoke("q")
    [request] = server.requests
    assert (request.tools[0]["type"], request.tool_choice) == ("function", asked)
    assert request.tools[0]["function"]["name"] in ("add", "Sum")
    assert reply.tool_calls[0]["args"] == {"a": 1, "b": 2}


@pytest.mark.parametrize(("text", "unreadable"), [('{"a": 1, "b": 2}', False), ("one and two", True)])
async def test_json_schemas_of_a_providers_own_are_read(text: str, unreadable: bool) -> None:
    async def node(state: MessagesState) -> dict[str, Any]:
        found = await outside().with_structured_output(Sum, include_raw=True).ainvoke(state["messages"])
        assert (found["parsed"] == Sum(a=1, b=2)) == (not unreadable)  # type: ignore[index]
        return {}

    with recording(Server(text), "node") as (collector, config):
        await graph(node).ainvoke(QUESTION, config)
    assert [call.unreadable for call in collector.calls] == [unreadable]


class Fills(Server):
    """Fills in the schema that it is shown, by a call or, without a tool, as text; it knows no other."""

    async def __call__(self, request: ChatRequest) -> TokenReply:
        schemas = [tool["function"]["parameters"] for tool in request.tools]
        given = dict.fromkeys(schemas[-1]["properties"], 3) if schemas else {}
        self.calls = tuple(ToolCall(name=one["function"]["name"], args=given, id="1") for one in request.tools[-1:])
        return await super().__call__(request)


@pytest.mark.parametrize("form", structured.FORMS)
async def test_the_policy_sees_the_schema_of_every_form(form: str) -> None:
    """The request had none, so that the policy had to guess the fields; 24 of 51 public uses are of such forms."""
    found: list[Any] = []

    async def node(state: MessagesState) -> dict[str, Any]:
        found.append(await structured.FORMS[form].ainvoke("q"))
        return {}

    redirect_openai()
    server = Fills("")
    with recording(server, "node") as (collector, config):
        await graph(node).ainvoke(QUESTION, config)
    assert found == [structured.Sum(a=3, b=3)]
    assert [request.tool_choice for request in server.requests] == ["Sum"]
    assert [call.unreadable for call in collector.calls] == [False]


@pytest.mark.parametrize("options", [{"format": "json"}, {"response_format": {"type": "json_object"}}])
@pytest.mark.parametrize("bound", [True, False])
async def test_a_call_for_any_object_says_so(options: dict[str, Any], bound: bool) -> None:
    model = outside().bind(**options) if bound else outside(model_kwargs=options)
    server = Server('```json\n{"a": 1}\n```')
    with recording(server, "node") as (_, config):
        state = await graph(asking(model)).ainvoke(QUESTION, config)
    assert ANY_OBJECT in server.requests[0].messages[0]["content"]
    assert state["messages"][-1].text == '{"a": 1}'


async def test_a_form_beside_tools_leaves_the_choice_among_them() -> None:
    server = Server("", ToolCall(name="add", args={"a": 1, "b": 2}, id="1"))
    with serving(server):
        asked = {"title": "Sum", "type": "object", "properties": {}}
        reply = await Policy().bind_tools([add], response_format=asked).ainvoke("q")
    [request] = server.requests
    assert [tool["function"]["name"] for tool in request.tools] == ["add", "Sum"]
    assert (request.tool_choice, [call["name"] for call in reply.tool_calls]) == ("required", ["add"])


IMAGE = HumanMessage([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}])


@pytest.mark.parametrize(("given", "options"), [([IMAGE], {}), ("q", {"tools": [{"type": "web_search"}]})])
async def test_what_it_cannot_read_ends_the_rollout(given: Any, options: dict[str, Any]) -> None:
    with serving(Server("fine")) as served, pytest.raises(PolicyMisused):
        await Policy().bind(**options).ainvoke(given)
    assert served.misused


@pytest.mark.parametrize("way", WAYS)
async def test_it_answers_for_the_model_of_a_node_that_learns(way: str) -> None:
    """The model is neither changed nor asked, however it is called."""
    model, server = outside(max_tokens=5), Server("fine")

    async def node(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(await WAYS[way](model, "q"))]}

    with recording(server, "node") as (collector, config):
        state = await graph(node).ainvoke(QUESTION, config)
    assert state["messages"][-1].text == "fine"
    assert {call.node for call in collector.calls} == {"node"}
    assert len(collector.calls) == len(server.requests) == (2 if way == "abatch" else 1)
    assert server.requests[0].sampling.max_tokens == 5


async def test_other_nodes_ask_their_own_model() -> None:
    """Also a second model of the same graph (agent-lightning #110), and a judge in the reward."""
    server, other = Server("fine"), FakeListChatModel(responses=["itself"])

    def node(state: MessagesState) -> dict[str, Any]:
        return {"messages": [other.invoke(state["messages"])]}

    with recording(server, "learns") as (collector, config):
        state = await graph(node).ainvoke(QUESTION, config)
        assert (await other.ainvoke("judge")).text == "itself"
    assert state["messages"][-1].text == "itself"
    assert (server.requests, collector.calls, dict(collector.model_calls)) == ([], [], {"node": 1})


@pytest.mark.parametrize("nodes", ["learns", "*"])
async def test_a_thread_that_outlives_its_rollout_asks_no_model(nodes: str) -> None:
    """A node may try again after a call that ended with the rollout (ai-hedge-fund)."""
    threads = list[Context]()

    def node(state: MessagesState) -> dict[str, Any]:
        threads.append(copy_context())
        return {}

    with recording(Server("fine"), nodes) as (_, config):
        await graph(node).ainvoke(QUESTION, config)
    with pytest.raises(PolicyMisused, match="after its rollout had ended"):
        threads[0].run(FakeListChatModel(responses=["itself"]).invoke, "q")


async def test_a_graph_that_a_tool_calls_has_a_path_of_its_own() -> None:
    first, second = (chain(MessagesState, think=asking(outside())) for _ in range(2))
    first.name, second.name = "first", "second"

    async def node(state: MessagesState) -> dict[str, Any]:
        await first.ainvoke(QUESTION)
        await second.ainvoke(QUESTION)
        return {}

    with recording(Server("fine")) as (collector, config):
        await graph(node).ainvoke(QUESTION, config)
    assert [call.node for call in collector.calls] == ["node/first/think", "node/second/think"]
    # The first asks its own model, whose server is not there.
    with recording(Server("fine"), "second") as (collector, config), pytest.raises(APIConnectionError):
        await graph(node).ainvoke(QUESTION, config)
    assert collector.calls == []


def test_models_are_as_before_where_nothing_runs() -> None:
    stand_in()
    model: BaseChatModel = FakeListChatModel(responses=["itself"])
    assert model.invoke("q").text == "itself"
    assert [chunk.text for chunk in model.stream("q")] == list("itself")


@pytest.mark.parametrize("options", [{"n": 2}, {"logprobs": True}])
@pytest.mark.parametrize("bound", [False, True])
async def test_what_the_policy_does_not_give_is_refused(options: dict[str, Any], bound: bool) -> None:
    """One reply came back, and the node read the second; ids came where LangChain has log-probabilities."""
    model = outside().bind(**options) if bound else outside(**options)
    with recording(Server("fine"), "node") as (_, config), pytest.raises(PolicyMisused):
        await graph(asking(model)).ainvoke(QUESTION, config)


@pytest.mark.parametrize(
    ("options", "parallel"),
    [
        ({}, True),
        ({"parallel_tool_calls": True}, True),
        ({"parallel_tool_calls": False}, False),
        ({"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}, False),
    ],
)
def test_a_request_says_whether_a_reply_may_have_several_calls(options: dict[str, Any], parallel: bool) -> None:
    request = Conversations().request([HumanMessage("q")], Sampling(), {"tools": [add], **options})
    assert request.parallel == parallel
