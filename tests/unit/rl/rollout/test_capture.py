"""Calls of the policy over HTTP by code that knows nothing of LangChain."""

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Annotated, Any, TypedDict

import httpx
import openai
import pytest
from langgraph.graph import START, StateGraph
from langgraph.types import Send

from agentflow import policy_url
from agentflow.graph.models.spec import ModelError
from agentflow.rl.apps.loading import load_app
from agentflow.rl.policy import policy as policy_module
from agentflow.rl.policy.chat import ChatRequest, TokenReply
from agentflow.rl.policy.policy import PromptTooLong
from agentflow.rl.rollout.packing import pack
from agentflow.rl.rollout.rollout import Rollout, RolloutStatus
from tests.cases import table
from tests.chat_templates import ADD, ScriptedPolicy, called, needs_templates
from tests.graphs import Server, chain, rollout, trainable

MESSAGES: list[Any] = [{"role": "user", "content": "q"}]

client = openai.OpenAI(api_key="none", base_url="http://127.0.0.1:9/v1", max_retries=0)
"""Built at import, for a server that does not exist."""
aclient = openai.AsyncOpenAI(api_key="none", base_url="http://127.0.0.1:9/v1", max_retries=0)


@pytest.fixture(autouse=True)
async def fresh_client(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Its connections belong to the event loop of one test."""
    async with aclient.copy(http_client=openai.DefaultAsyncHttpxClient()) as fresh:
        monkeypatch.setitem(globals(), "aclient", fresh)
        yield


class State(TypedDict, total=False):
    answer: Annotated[str, lambda old, new: new]


async def played(graph: Any, policy: Any, *nodes: str) -> Rollout:
    return await rollout(trainable(graph, *nodes, inputs=lambda task: {}), policy)


def one_node(node: Any) -> Any:
    return chain(State, node=node)


ASKED: Any = {"model": "m", "messages": MESSAGES, "max_tokens": 5, "stop": ["x"]}


def sync(state: State) -> State:
    return {"answer": client.chat.completions.create(**ASKED).choices[0].message.content or ""}


async def asynchronous(state: State) -> State:
    return {"answer": (await aclient.chat.completions.create(**ASKED)).choices[0].message.content or ""}


def streamed(state: State) -> State:
    chunks = list(client.chat.completions.create(**ASKED, stream=True, stream_options={"include_usage": True}))
    assert chunks[-1].usage.total_tokens == 2
    return {"answer": "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)}


async def by_url(state: State) -> State:
    async with httpx.AsyncClient() as other:
        found = await other.post(f"{policy_url()}/chat/completions", json={**ASKED, "stop": "x"})
    return {"answer": found.json()["choices"][0]["message"]["content"]}


def raw(state: State) -> State:
    return {
        "answer": client.chat.completions.with_raw_response.create(**ASKED).parse().choices[0].message.content or ""
    }


@pytest.mark.parametrize("node", [sync, asynchronous, streamed, by_url, raw])
async def test_a_call_over_http_is_a_call_of_its_node(node: Any) -> None:
    server = Server()
    found = await played(one_node(node), server)
    assert (found.status, found.reward) == (RolloutStatus.OK, 1.0), found.trace.error
    assert [(call.node, list(call.response_ids)) for call in found.calls] == [("node", [2])]
    [request] = server.requests
    assert (request.sampling.max_tokens, request.sampling.stop) == (5, ("x",))


def app_that_asks() -> Any:
    """An app that makes its client when it is loaded."""
    own = openai.OpenAI(api_key="none", base_url="http://model.invalid/v1", max_retries=0)
    return trainable(
        one_node(lambda state: {"answer": own.chat.completions.create(**ASKED).choices[0].message.content}),
        inputs=lambda task: {},
    )


async def test_the_policy_is_reached_past_the_environments_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy without exceptions got the calls, whose answer it cannot have."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "")
    found = await rollout(load_app(f"{__name__}:app_that_asks"))
    assert (found.status, found.reward) == (RolloutStatus.OK, 1.0), found.trace.error


@needs_templates
@pytest.mark.parametrize("stream", [False, True])
async def test_turns_with_tools_are_one_row(stream: bool) -> None:
    """The calls that were sampled are repeated token by token, though the client wrote them again."""
    pytest.importorskip("verl")
    script = iter([called("qwen2_5", "add", {"a": 1}, tight=True), called("qwen2_5", "add", {"a": 2}), "2"])

    async def node(state: State) -> State:
        messages = [*MESSAGES]
        while True:
            said = await _said(messages, stream)
            messages.append(said)
            if not said.get("tool_calls"):
                return {"answer": said["content"]}
            messages += [{"role": "tool", "tool_call_id": call["id"], "content": "3"} for call in said["tool_calls"]]

    policy = ScriptedPolicy("qwen2_5", lambda request: next(script))
    found = await played(one_node(node), policy)
    assert (found.status, found.reward) == (RolloutStatus.OK, 1.0), found.trace.error
    [row] = pack(found.calls, limit=10_000)
    assert sum(row.mask) == sum(len(reply.token_ids) for reply in policy.sampled)
    said = [one["role"] for one in policy.requests[-1].messages]
    assert said == ["user", "assistant", "tool", "assistant", "tool"]


async def _said(messages: list[Any], stream: bool) -> dict[str, Any]:
    if stream:
        async with aclient.chat.completions.stream(model="m", messages=messages, tools=[ADD]) as events:
            found = await events.get_final_completion()
    else:
        found = await aclient.chat.completions.create(model="m", messages=messages, tools=[ADD])  # type: ignore[assignment]
    message = found.choices[0].message
    assert found.choices[0].finish_reason == ("tool_calls" if message.tool_calls else "stop")
    fields = {"role", "content", "tool_calls"} if message.tool_calls else {"role", "content"}
    without = {"tool_calls": {"__all__": {"parsed_arguments"}}}
    return dict(message.model_dump(include=fields, exclude=without, exclude_none=stream))  # no content beside a call


async def test_only_nodes_that_learn_ask_the_policy() -> None:
    """The client of another node asks its own server, as does a reward."""

    async def other(state: State) -> State:
        assert policy_url() is None
        with pytest.raises(openai.APIConnectionError):
            await asynchronous(state)
        return {}

    inner = chain(State, other=other, agent=asynchronous)
    found = await played(chain(State, research=inner), Server(), "research/agent")
    assert (found.status, [call.node for call in found.calls]) == (RolloutStatus.OK, ["research/agent"])
    assert policy_url() is None
    with pytest.raises(openai.APIConnectionError):
        sync({})


async def test_rollouts_and_branches_at_once_are_told_apart() -> None:
    builder = StateGraph(State)
    builder.add_node("node", by_url)
    builder.add_conditional_edges(START, lambda state: [Send("node", {}) for _ in range(3)])
    graph = builder.compile()
    servers = [Server(f"reply {number}") for number in range(8)]
    found = await asyncio.gather(*(played(graph, server) for server in servers))
    assert [one.trace.answer for one in found] == [server.text for server in servers]
    assert all(len(server.requests) == 3 for server in servers)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (PromptTooLong("too long"), RolloutStatus.TOO_LONG),
        (ModelError("it is down"), RolloutStatus.ENDPOINT_FAILED),
        (RuntimeError("a fault"), RolloutStatus.CRASHED),
    ],
)
async def test_a_failed_call_is_the_rollouts_and_is_not_repeated(error: Exception, status: RolloutStatus) -> None:
    server = Server(error=error)

    async def node(state: State) -> State:
        await aclient.with_options(max_retries=2).chat.completions.create(model="m", messages=MESSAGES)
        return {}

    found = await played(one_node(node), server)
    assert (found.status, len(server.requests)) == (status, 1)
    assert str(error) in found.trace.error


@pytest.mark.parametrize("error", [PromptTooLong("too long"), ModelError("it is down")])
@pytest.mark.parametrize("where", ["node", "branch"])
async def test_a_failure_is_of_a_call_unless_its_node_had_an_answer_since(where: str, error: Exception) -> None:
    """A fault of a node that had asked again, with success, was the policy's or the server's."""
    server, failed, answered = Server(error=error), asyncio.Event(), asyncio.Event()

    async def asks(state: State) -> State:
        try:
            return await asynchronous(state)
        except openai.APIStatusError:
            server.error = None
            failed.set()
            if where == "node":
                await asynchronous(state)
                raise KeyError("x") from None
            await answered.wait()
            raise

    async def later(state: State) -> State:
        await failed.wait()
        await asynchronous(state)
        answered.set()
        return {}

    builder = StateGraph(State).add_node("asks", asks).add_edge(START, "asks")
    if where == "branch":
        builder.add_node("later", later).add_edge(START, "later")
    found = await played(builder.compile(), server)
    assert (found.trace.failure is error) == (where == "branch")
    assert (found.status == RolloutStatus.CRASHED) == (where == "node")


@pytest.mark.parametrize(
    ("address", "body"),
    [
        *table(__file__, "capture.txt"),
        ("/chat/completions", {"messages": [{"role": "user", "content": "x" * (16 << 20)}]}),
    ],
)
async def test_what_it_cannot_answer_ends_the_rollout(address: str, body: dict[str, Any]) -> None:
    """Also where the node passes the refusal over."""
    statuses: list[int] = []

    async def node(state: State) -> State:
        async with httpx.AsyncClient() as other:
            statuses.append((await other.post(f"{policy_url()}{address}", json={"model": "m", **body})).status_code)
        return {}

    server = Server()
    found = await played(one_node(node), server)
    assert (found.status, server.requests) == (RolloutStatus.CRASHED, [])
    assert statuses[0] in (400, 404, 413)


async def test_a_blocking_client_in_an_async_node_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_module, "PATIENCE", 0.1)

    async def node(state: State) -> State:
        return sync(state)

    found = await played(one_node(node), Server())
    assert found.status == RolloutStatus.CRASHED
    assert "event loop" in found.trace.error


@pytest.mark.parametrize(
    ("part", "other", "headers", "status"),
    [
        ("", "", {"host": "example.com"}, 403),
        ("", "", {"origin": "https://example.com"}, 403),
        (r"/[\w-]{16,}/", "/" + "0" * 32 + "/", {}, 404),
        ("/node/", "/other/", {}, 404),
    ],
    ids=["host", "origin", "secret", "path"],
)
async def test_nobody_else_is_answered(part: str, other: str, headers: dict[str, str], status: int) -> None:
    """Nor anybody once the rollout has ended."""
    urls: list[str] = []

    async def ask(url: str, **headers: str) -> int:
        async with httpx.AsyncClient() as client:
            body = {"model": "m", "messages": MESSAGES}
            return (await client.post(f"{url}/chat/completions", json=body, headers=headers)).status_code

    async def node(state: State) -> State:
        urls.append(str(policy_url()))
        assert await ask(re.sub(part, other, urls[0], count=1) if part else urls[0], **headers) == status
        return {"answer": "2"}

    server = Server()
    found = await played(one_node(node), server)
    assert found.status == RolloutStatus.OK, found.trace.error
    assert await ask(urls[0]) == 404
    assert (server.requests, found.calls) == ([], [])


async def test_a_client_that_hangs_up_is_not_answered() -> None:
    asked, given_up = asyncio.Event(), asyncio.Event()

    class Slow(Server):
        async def __call__(self, request: ChatRequest) -> TokenReply:
            self.requests.append(request)
            asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                given_up.set()
            raise AssertionError

    async def node(state: State) -> State:
        call = asyncio.create_task(asynchronous(state))
        await asked.wait()
        call.cancel()
        await given_up.wait()
        return {"answer": "2"}

    found = await played(one_node(node), Slow())
    assert (found.status, found.reward, found.calls) == (RolloutStatus.OK, 1.0, [])
