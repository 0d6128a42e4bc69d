"""The server's MCP and A2A endpoints, by real clients and by plain JSON-RPC."""

from ast import literal_eval
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient

from agentflow.evals.atlas.families import Problem
from tests.integration.server.conftest import CONTEXT, Server

pytest.importorskip("mcp", reason="the extra mcp is not installed")

from mcp import Client


@pytest.fixture
async def knows_atlas(client: LangGraphClient) -> AsyncIterator[str]:
    """The name of an assistant of `ask` with settings of its own, as an operator makes one."""
    made = await client.assistants.create("ask", name="ask atlas", context=CONTEXT, description="Answers about Atlas.")
    yield "ask_atlas"
    await client.assistants.delete(made["assistant_id"])


def mcp(server: Server) -> Client:
    return Client(f"{server.url}/mcp")


async def test_mcp_offers_ask(server: Server, knows_atlas: str) -> None:
    async with mcp(server) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert {"ask", "AgentFlow", knows_atlas} <= set(tools)
    ask = tools["ask"]
    assert set(ask.input_schema["properties"]) == set(ask.input_schema["required"]) == {"question"}
    assert tools[knows_atlas].description == "Answers about Atlas."


async def test_mcp_answers_with_the_embedded_model(server: Server) -> None:
    """The server works without settings and keys."""
    asked = "How many years lie between the publication of Song of Fupoz and that of Song of Gotonub?"
    async with mcp(server) as client:
        result = await client.call_tool("ask", {"question": asked})
    assert not result.is_error
    [content] = result.content
    assert content.type == "text"
    found = literal_eval(content.text)
    assert (found["answer"], found["confidence"] > 0.5) == ("49", True)


async def send(server: Server, assistant: str, part: dict[str, Any]) -> dict[str, Any]:
    message = {"role": "user", "messageId": "1", "parts": [part]}
    request = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message, "context": CONTEXT}}
    async with httpx.AsyncClient(timeout=None) as http:
        reply = await http.post(f"{server.url}/a2a/{assistant}", json=request, headers={"Accept": "application/json"})
    assert reply.status_code == 200, reply.text
    return dict(reply.json())


def said(reply: dict[str, Any]) -> str:
    task = reply["result"]
    assert task["status"]["state"] == "completed"
    return "".join(part["text"] for artifact in task["artifacts"] for part in artifact["parts"])


async def test_a2a_has_a_conversation_with_the_agent(server: Server, assistant: str, question: Problem) -> None:
    reply = await send(server, assistant, {"kind": "text", "text": question.question})
    assert said(reply).endswith(question.answer)


async def test_a2a_asks_a_question(server: Server, client: LangGraphClient, question: Problem) -> None:
    [ask] = await client.assistants.search(graph_id="ask", limit=1)
    reply = await send(server, ask["assistant_id"], {"kind": "data", "data": {"question": question.question}})
    assert said(reply) == question.answer


async def test_a_client_of_a2as_own_library_is_answered(server: Server, assistant: str) -> None:
    """Without streaming: of a stream, version 1.3 of the library reads the first event of this server alone."""
    pytest.importorskip("a2a", reason="a2a-sdk is not installed")
    from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
    from a2a.types import Message, Part, Role, SendMessageRequest

    async with httpx.AsyncClient(timeout=None) as http:
        path = f"/.well-known/agent-card.json?assistant_id={assistant}"
        card = await A2ACardResolver(http, server.url, agent_card_path=path).get_agent_card()
        client = ClientFactory(ClientConfig(httpx_client=http, streaming=False)).create(card)
        asked = Message(role=Role.ROLE_USER, message_id="1", parts=[Part(text="How many feet are 3 yards?")])
        [event] = [event async for event in client.send_message(SendMessageRequest(message=asked))]
    assert [part.text for artifact in event.task.artifacts for part in artifact.parts] == ["9"]
