"""The graph behind the real LangGraph server, as Studio, the SDK and other graphs meet it. Needs the extra `studio`."""

from typing import Any

import httpx
import pytest
from langgraph.pregel.remote import RemoteGraph
from langgraph_sdk.client import LangGraphClient

from agentflow.evals.atlas.families import Problem
from agentflow.graph.studio_config import StudioConfig
from tests.integration.server.conftest import CONTEXT, Server, asked
from tests.waiting import LAST_RESORT


async def test_studio_sees_the_form_and_the_graph(client: LangGraphClient, assistant: str) -> None:
    schemas = await client.assistants.get_schemas(assistant)
    assert schemas["context_schema"] == StudioConfig.model_json_schema()
    assert set(schemas["input_schema"]["properties"]) == {"messages"}
    prompt = schemas["context_schema"]["properties"]["planner_prompt"]
    assert (prompt["langgraph_type"], prompt["langgraph_nodes"]) == ("prompt", ["planner"])
    drawn = await client.assistants.get_graph(assistant)
    edges = {(edge["source"], edge["target"]) for edge in drawn["edges"]}
    loop = {("planner", "executor"), ("executor", "verifier"), ("verifier", "planner"), ("verifier", "generator")}
    assert loop | {("__start__", "analyst")} <= edges


async def test_a_question_streams_the_updates_of_its_nodes(client: LangGraphClient, question: Problem) -> None:
    thread = await client.threads.create()
    updates: list[tuple[str, dict[str, Any]]] = []
    async for part in client.runs.stream(
        thread["thread_id"], "agentflow", input=asked(question), context=CONTEXT, stream_mode="updates"
    ):
        assert part.event in ("metadata", "updates"), part.data
        if part.event == "updates":
            updates += part.data.items()

    turns = len(question.steps)
    assert [node for node, _ in updates] == ["analyst", *["planner", "executor", "verifier"] * turns, "generator"]
    remembered = [turn for node, update in updates if node == "verifier" for turn in update["memory"]]
    assert [turn["turn"] for turn in remembered] == [*range(1, turns + 1)]
    assert [turn["plan"]["tool"] for turn in remembered] == [step.tool for step in question.steps]
    assert [turn["verdict"]["signal"] for turn in remembered] == [*["continue"] * (turns - 1), "stop"]
    assert updates[-1][1]["answer"] == question.answer

    state = await client.threads.get_state(thread["thread_id"])
    assert len(state["values"]["memory"]) == turns
    assert state["values"]["messages"][-1]["content"].endswith(question.answer)


async def test_it_is_a_remote_graph(client: LangGraphClient, question: Problem) -> None:
    remote = RemoteGraph("agentflow", client=client)
    state: Any = await remote.ainvoke(asked(question), context=CONTEXT)
    assert (state["status"], state["answer"]) == ("answered", question.answer)
    with pytest.raises(Exception, match="max_turns"):
        await remote.ainvoke(asked(question), context={**CONTEXT, "max_turns": 0})


@pytest.mark.parametrize(
    ("origin", "let_in"),
    [
        (None, True),
        ("https://smith.langchain.com", True),
        ("https://granted.example", True),
        ("https://evil.example", False),
    ],
)
async def test_pages_of_other_sites_are_kept_out(origin: str | None, let_in: bool, server: Server) -> None:
    """LangGraph by itself lets every page that the operator's browser shows start a run, also without a preflight."""
    headers = {} if origin is None else {"Origin": origin}
    asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    body = '{"assistant_id": "agentflow", "input": {"messages": []}}'
    async with httpx.AsyncClient(base_url=server.url, timeout=LAST_RESORT) as http:
        run = await http.post("/runs/wait", content=body, headers={**headers, "Content-Type": "text/plain"})
        read = await http.get("/ok", headers=headers)
        preflight = await http.options("/runs/wait", headers={**headers, **asks})
    assert [run.status_code, read.status_code] == ([200, 200] if let_in else [403, 403])
    if origin is not None:
        assert ("Access-Control-Allow-Origin" in preflight.headers) == let_in
    if not let_in:
        assert "AGENTFLOW_ORIGINS" in run.text


async def test_another_name_for_this_machine_reads_nothing(server: Server) -> None:
    """A site that lets its name resolve to 127.0.0.1 is the server's own origin to a browser: its GETs carry none."""
    async with httpx.AsyncClient(base_url=server.url, timeout=None) as http:
        for host, status in [("evil.example", 403), ("localhost:2024", 200), ("granted.example", 200)]:
            assert (await http.get("/ok", headers={"Host": host})).status_code == status
            assert (await http.get("/openapi.json", headers={"Host": host})).status_code == status
