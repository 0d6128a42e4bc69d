"""Conversations on the page: events as they come, approval, stopping, one run at a time, and who may ask."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from agentflow.graph.agent import build_graph
from agentflow.graph.context import Context
from agentflow.graph.run.calls import calls_file
from agentflow.graph.run.trace import Trace
from agentflow.nodes.approval import ApprovalDecision
from agentflow.view import chat as chats
from agentflow.view import chat_routes
from agentflow.view.app import build_app
from agentflow.view.chat import Busy, Chat, Conversation
from agentflow.view.chat_routes import ChatRoutes
from agentflow.view.run_index import RunIndex
from tests.scripted import Scripted, echo
from tests.waiting import LAST_RESORT

TURN = ("planning", "planned", "tool_called", "result", "verdict")


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    found = Scripted()
    found.install(monkeypatch)
    return found


@asynccontextmanager
async def opened(script: Scripted, **settings: Any) -> AsyncIterator[Chat]:
    context = Context(model=script.spec, **settings)
    chat = Chat(lambda saver: build_graph([echo], checkpointer=saver), context)
    async with chat.open():
        yield chat


async def until(conversation: Conversation, kind: str, number: int = 1) -> list[dict[str, Any]]:
    """Wait until that many events of this kind have come, and return all."""
    async with asyncio.timeout(LAST_RESORT):
        while sum(event["type"] == kind for event in conversation.events) < number:
            await conversation.after(len(conversation.events), LAST_RESORT)
    return conversation.events


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


def test_a_question_is_answered_in_events_and_leaves_a_trace(script: Scripted) -> None:
    async def go() -> None:
        async with opened(script) as chat:
            conversation = await chat.ask("How so?", "")
            events = await until(conversation, "ended")
            assert kinds(events) == ["question", "analysed", *TURN, "answer", "ended"]
            assert (events[-1]["answer"], events[-1]["status"], events[-1]["trace"]) == ("hello", "answered", 0)
            assert await chat.ask("And then?", conversation.id) is conversation
            events = await until(conversation, "ended", 2)
            assert events[-1]["trace"] == 1
            traces = [Trace.model_validate_json(line) for line in chat.traces.read_bytes().splitlines()]
            assert [trace.task.question for trace in traces] == ["How so?", "And then?"]
            assert len(calls_file(chat.traces).read_bytes().splitlines()) == 2
        assert not chat.traces.parent.exists()

    asyncio.run(go())


def test_a_second_question_waits_until_the_first_is_stopped(script: Scripted) -> None:
    async def hang(_: object) -> str:
        await asyncio.Event().wait()
        return ""

    async def go() -> None:
        script.replies["verifier"] = hang
        async with opened(script) as chat:
            first = await chat.ask("How so?", "")
            await until(first, "result")
            with pytest.raises(Busy) as busy:
                await chat.ask("Me too?", "")
            assert str(busy.value) == first.id == chat.about()["running"]
            assert not await chat.stop("another")
            assert await chat.stop(first.id)
            assert kinds(first.events)[-1] == "stopped"
            assert not await chat.stop(first.id)
            script.replies["verifier"] = "Analysis: It is done.\nVerdict: stop"
            again = await chat.ask("Once more?", first.id)
            assert (await until(again, "ended"))[-1]["answer"] == "hello"

    asyncio.run(go())


@pytest.mark.parametrize(("decision", "error"), [("approve", None), ("refuse", "refused")])
def test_a_call_waits_for_the_persons_decision(script: Scripted, decision: Any, error: str | None) -> None:
    async def go() -> None:
        async with opened(script, approve_tools=["echo"]) as chat:
            conversation = await chat.ask("How so?", "")
            assert not chat.decide(conversation.id, ApprovalDecision(decision="approve"))
            waiting = (await until(conversation, "approval"))[-1]
            assert (waiting["proposal"]["tool"], waiting["proposal"]["arguments"]) == ("echo", {"text": "hello"})
            assert not chat.decide("another", ApprovalDecision(decision="approve"))
            assert chat.decide(conversation.id, ApprovalDecision(decision=decision, reason="because"))
            events = await until(conversation, "ended")
            assert [event["decision"] for event in events if event["type"] == "decided"] == [decision]
            assert [event["error"] for event in events if event["type"] == "result"] == [error]

    asyncio.run(go())


def test_a_failure_ends_the_run_and_secrets_are_struck_out(script: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "very-secret-value")
    script.replies["planner"] = "Sub-Goal: very-secret-value\nTool: echo\nContext: hello"

    def fail(_: object) -> str:
        raise RuntimeError("it is very-secret-value")

    async def go() -> None:
        script.replies["generator"] = fail
        async with opened(script) as chat:
            events = await until(await chat.ask("very-secret-value?", ""), "ended")
            assert (events[-1]["status"], events[-1]["answer"]) == ("failed", "")
            assert events[-1]["error"]
            assert "very-secret-value" not in str(events)

    asyncio.run(go())


def test_old_conversations_are_forgotten(script: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chats, "MOST", 2)

    async def go() -> None:
        async with opened(script) as chat:
            asked = []
            for number in range(4):
                asked.append(await chat.ask(f"Question {number}?", ""))
                await until(asked[-1], "ended")
            assert list(chat.conversations) == [one.id for one in asked[2:]]

    asyncio.run(go())


def event_of(sent: bytes) -> dict[str, Any]:
    """The event in a part of a stream."""
    data: dict[str, Any] = json.loads(sent.partition(b"data: ")[2])
    return data


Asks = Callable[..., Awaitable[httpx.Response]]


async def over_http(chat: Chat | None, use: Callable[[Asks], Awaitable[None]]) -> None:
    """Let `use` ask the server, as its own page does by default."""
    transport = httpx.ASGITransport(app=build_app(RunIndex([]), chat=chat))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:

        async def ask(path: str, body: Any = None, **headers: str) -> httpx.Response:
            own = {"Origin": "http://127.0.0.1:8000", **{name.replace("_", "-"): one for name, one in headers.items()}}
            return await client.request("GET" if body is None else "POST", path, json=body, headers=own)

        await use(ask)


def test_the_page_asks_follows_decides_and_stops(script: Scripted) -> None:
    async def use(ask: Asks) -> None:
        assert (await ask("/api/chat")).json()["models"] == [script.spec]
        started = await ask("/api/chat", {"question": " How so? "})
        assert started.status_code == 202
        path = f"/api/chat/{started.json()['conversation']}"
        busy = await ask("/api/chat", {"question": "Me too?"})
        assert (busy.status_code, busy.json()) == (409, {"running": started.json()["conversation"]})
        assert (await ask(f"{path}/decision", {"decision": "approve"})).status_code == 409
        assert (await ask(f"{path}/decision", {"decision": "edit"})).status_code == 400
        assert (await ask(f"{path}/stop", {})).json() == {"stopped": True}

    async def go() -> None:
        async with opened(script) as chat:
            await over_http(chat, use)

    asyncio.run(go())


def test_events_are_streamed_from_where_a_client_is(script: Scripted) -> None:
    stops = iter([False, True])

    async def go() -> None:
        async with opened(script) as chat:
            conversation = await chat.ask("How so?", "")
            last = len(await until(conversation, "ended")) - 1
            transport = httpx.ASGITransport(app=build_app(RunIndex([]), lambda: next(stops), chat))
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
                path, headers = f"/api/chat/{conversation.id}/events", {"Last-Event-ID": str(last - 1)}
                opening, event, rest = (await client.get(path, headers=headers)).text.split("\n\n")
            assert (opening, rest) == ("retry: 1000", "")
            assert event.startswith(f"id: {last}\ndata: ")
            assert json.loads(event.partition("data: ")[2]) == conversation.events[last]

    asyncio.run(go())


def test_an_answer_is_streamed_and_the_next_event_replaces_it(
    script: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_routes, "PAUSE", 0)

    async def go() -> None:
        async with opened(script) as chat:
            conversation = Conversation()
            found = ChatRoutes(chat, lambda: False)._events(conversation, 0)
            assert await anext(found) == b"retry: 1000\n\n"
            for text in ("It", "It is", "It is nine."):
                conversation.stream(text)
                assert event_of(await anext(found)) == {"type": "partial_answer", "answer": text}
            conversation.add("answer", answer="It is ten.")
            assert event_of(await anext(found)) == {"type": "answer", "answer": "It is ten."}
            conversation.add("question", question="And?")
            assert event_of(await anext(found))["type"] == "question"
            conversation.stream("It is nine.")
            assert event_of(await anext(found))["answer"] == "It is nine."

    asyncio.run(go())


def test_the_generators_answer_is_streamed(script: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    streamed, stream = list[str](), Conversation.stream

    def watched(self: Conversation, partial_answer: str) -> None:
        streamed.append(partial_answer)
        stream(self, partial_answer)

    monkeypatch.setattr(Conversation, "stream", watched)

    async def go() -> None:
        async with opened(script) as chat:
            conversation = await chat.ask("How so?", "")
            await until(conversation, "ended")
            assert "hello" in streamed
            assert conversation.partial_answer == ""

    asyncio.run(go())


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:9"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": ""}, 403),
        ({"Host": "evil.example"}, 400),
        ({"Content_Type": "text/plain"}, 415),
    ],
)
def test_other_pages_may_not_ask(script: Scripted, headers: dict[str, str], status: int) -> None:
    async def use(ask: Asks) -> None:
        assert (await ask("/api/chat", {"question": "How so?"}, **headers)).status_code == status

    async def go() -> None:
        async with opened(script) as chat:
            await over_http(chat, use)
            assert not chat.conversations

    asyncio.run(go())


@pytest.mark.parametrize("question", ["", "  ", "x" * 20_001, None, 7])
def test_what_is_no_question_is_refused(script: Scripted, question: Any) -> None:
    async def use(ask: Asks) -> None:
        assert (await ask("/api/chat", {"question": question})).status_code == 400
        assert (await ask("/api/chat", {"question": "x" * 200_000})).status_code == 413
        assert (await ask("/api/chat/none/stop", {})).status_code == 404
        assert (await ask("/api/chat/none/events")).status_code == 404

    async def go() -> None:
        async with opened(script) as chat:
            await over_http(chat, use)

    asyncio.run(go())


def test_without_a_chat_nothing_is_asked() -> None:
    async def use(ask: Asks) -> None:
        assert (await ask("/api/chat")).status_code == 404
        assert (await ask("/api/chat", {"question": "How so?"})).status_code == 404

    asyncio.run(over_http(None, use))
