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
