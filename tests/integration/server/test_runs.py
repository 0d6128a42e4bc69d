"""Runs on the real server: progress, conversations, approval, cancellation, and what clients may not set."""

import asyncio
import json
from typing import Any

import pytest
from langgraph_sdk.client import LangGraphClient

from agentflow.evals.atlas.families import Problem
from tests.integration.server.conftest import CONTEXT, KEY, Server, asked

SIX_BY_SEVEN = {"messages": [{"role": "user", "content": "What is 6 * 7?"}]}


async def updates(client: LangGraphClient, thread: str | None, given: Any, **settings: Any) -> list[dict[str, Any]]:
    """The updates that the nodes return."""
    stream = client.runs.stream(thread, "agentflow", input=given, stream_mode=["updates"], **settings)
    parts = [part async for part in stream]
    assert {part.event for part in parts} <= {"metadata", "updates"}, parts[-1].data
    return [part.data for part in parts if part.event == "updates"]


async def new_thread(client: LangGraphClient) -> str:
    return str((await client.threads.create())["thread_id"])


async def test_a_conversation(client: LangGraphClient, question: Problem) -> None:
    """Chat mode: a person's message in, calls and the agent's message out, and a second question starts afresh."""
    thread = await new_thread(client)
    first: Any = await client.runs.wait(thread, "agentflow", input=asked(question), context=CONTEXT)
    second: Any = await client.runs.wait(thread, "agentflow", input=asked(question), context=CONTEXT)
    exchange = ["human", *["ai", "tool"] * len(question.steps), "ai"]
    assert [message["type"] for message in first["messages"]] == exchange
    assert [message["type"] for message in second["messages"]] == exchange * 2
    assert second["messages"][-1]["content"] == question.answer
    assert [turn["turn"] for turn in second["memory"]] == [turn["turn"] for turn in first["memory"]]


async def test_a_chat_reads_the_answer_as_it_is_written(client: LangGraphClient, server: Server) -> None:
    """Streamed as agent-chat-ui asks for it: the messages as they come, and the values after each step."""
    thread, context = await new_thread(client), {"model": server.model}
    modes: Any = ["messages-tuple", "values"]
    stream = client.runs.stream(thread, "agentflow", input=SIX_BY_SEVEN, context=context, stream_mode=modes)
    parts = [part async for part in stream]
    pieces = [part.data for part in parts if part.event == "messages"]
    answer = parts[-1].data["messages"][-1]
    assert {metadata["langgraph_node"] for _, metadata in pieces} == {"generator"}
    assert {(piece["id"], piece["type"]) for piece, _ in pieces} == {(answer["id"], "AIMessageChunk")}
    assert ("".join(piece["content"] for piece, _ in pieces), answer["content"]) == ("42", "42")
    assert [message["type"] for message in parts[-1].data["messages"]] == ["human", "ai", "tool", "ai"]


async def test_no_update_and_no_state_shows_the_key(client: LangGraphClient, server: Server) -> None:
    server.endpoint.requests.clear()
    thread = await new_thread(client)
    found = await updates(client, thread, SIX_BY_SEVEN, context={"model": server.model})
    assert found[-1]["generator"]["answer"] == "42"
    headers = [str(request.headers) for request in server.endpoint.requests]
    assert [KEY in sent for sent in headers] == [True] * 4
    history = await client.threads.get_history(thread, limit=50)
    assert KEY not in json.dumps([found, history])


async def test_a_call_waits_for_a_person_who_edits_it(client: LangGraphClient, server: Server) -> None:
    thread, context = await new_thread(client), {"model": server.model, "approve_tools": ["python_coder"]}
    before = await updates(client, thread, SIX_BY_SEVEN, context=context)
    assert "__interrupt__" in before[-1]
    state = await client.threads.get_state(thread)
    [interrupt] = state["tasks"][0]["interrupts"]
    assert interrupt["value"]["arguments"] == {"code": "print(6 * 7)"}
    edit: Any = {"resume": {"decision": "edit", "arguments": {"code": "print(6 * 8)"}}}
    finished: Any = await client.runs.wait(thread, "agentflow", command=edit, context=context)
    assert finished["memory"][0]["action"]["result"]["output"] == "48"


async def test_a_cancelled_run_ends_and_the_thread_goes_on(client: LangGraphClient, server: Server) -> None:
    server.endpoint.requests.clear()
    thread, context = await new_thread(client), {"model": server.model}
    hanging = {"messages": [{"role": "user", "content": "#hang#"}]}
    run = await client.runs.create(thread, "agentflow", input=hanging, context=context)
    assert await asyncio.to_thread(server.hangs.wait)
    await client.runs.cancel(thread, run["run_id"], wait=True)
    assert (await client.runs.get(thread, run["run_id"]))["status"] == "interrupted"
    assert not (await client.threads.get_state(thread))["values"].get("memory")

    state: Any = await client.runs.wait(thread, "agentflow", input=SIX_BY_SEVEN, context=context)
    assert (state["answer"], len(state["memory"])) == ("42", 1)


@pytest.mark.parametrize(
    ("context", "grant"),
    [
        ({"model": "openai-compatible:x@http://127.0.0.1:9/v1"}, "AGENTFLOW_ENDPOINTS"),
        ({"corpus": "/etc/passwd"}, "AGENTFLOW_FILES"),
        ({"tools": ["os:system"]}, "AGENTFLOW_TOOLS"),
    ],
)
@pytest.mark.parametrize("graph", ["agentflow", "ask"])
async def test_what_is_not_granted_is_refused_in_one_line(
    graph: str, context: dict[str, Any], grant: str, client: LangGraphClient
) -> None:
    given = {"question": "What?"} if graph == "ask" else SIX_BY_SEVEN
    found: Any = await client.runs.wait(None, graph, input=given, context=context, raise_error=False)
    error = found["__error__"]
    assert error["error"] == "ModelError"
    assert grant in error["message"]
    assert "\n" not in error["message"]


@pytest.mark.parametrize("graph", ["agentflow", "ask"])
@pytest.mark.parametrize("context", [{"aprove_tools": ["*"]}, {"max_turn": 3, "model": "embedded"}])
async def test_a_setting_that_there_is_not_fails_the_run(
    graph: str, context: dict[str, Any], client: LangGraphClient
) -> None:
    given = {"question": "What?"} if graph == "ask" else SIX_BY_SEVEN
    made = await client.assistants.create(graph, context=context)
    for assistant, sent in [(graph, {"context": context}), (made["assistant_id"], {})]:
        found: Any = await client.runs.wait(None, assistant, input=given, raise_error=False, **sent)
        assert next(iter(context)) in found["__error__"]["message"]
    await client.assistants.delete(made["assistant_id"])


async def test_settings_of_another_kind_are_no_way_around(client: LangGraphClient) -> None:
    """The server's older `configurable`, and an assistant that was made with them."""
    far = {"model": "openai-compatible:x@http://127.0.0.1:9/v1"}
    found: Any = await client.runs.wait(
        None, "agentflow", input=SIX_BY_SEVEN, config={"configurable": far}, raise_error=False
    )
    assert "AGENTFLOW_ENDPOINTS" in str(found["__error__"])
    made = await client.assistants.create("agentflow", context=far)
    found = await client.runs.wait(None, made["assistant_id"], input=SIX_BY_SEVEN, raise_error=False)
    assert "AGENTFLOW_ENDPOINTS" in str(found["__error__"])
    await client.assistants.delete(made["assistant_id"])


async def test_what_is_granted_is_used(client: LangGraphClient, server: Server) -> None:
    cache = server.granted / "search.sqlite"
    context = {"model": server.model, "search_cache": f"use:{cache}"}
    state: Any = await client.runs.wait(None, "agentflow", input=SIX_BY_SEVEN, context=context)
    assert state["answer"] == "42"
