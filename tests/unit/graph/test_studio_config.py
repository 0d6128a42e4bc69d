"""The settings as a client's form: what it shows, and what becomes of what is filled in."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from agentflow.graph.agent import build_graph
from agentflow.graph.context import MODULES, Context
from agentflow.graph.prompts import PLACEHOLDERS
from agentflow.graph.server import for_server, graph
from agentflow.graph.studio_config import StudioConfig
from agentflow.nodes import planner, verifier
from tests.cases import table
from tests.scripted import GUESS, Script, echo, question

SCHEMA: dict[str, Any] = graph.get_context_jsonschema() or {}
FIELDS: dict[str, dict[str, Any]] = SCHEMA["properties"]


def test_every_setting_of_a_run_is_there_and_tables_are_flat() -> None:
    flat = {f"{module}_model" for module in MODULES} | {f"{module}_prompt" for module in PLACEHOLDERS}
    assert set(FIELDS) == set(Context.model_fields) - {"models", "prompts"} | flat
    assert all(parameter["description"] for parameter in SCHEMA["$defs"]["Sampling"]["properties"].values())
    for module in PLACEHOLDERS:
        field = FIELDS[f"{module}_prompt"]
        assert (field["langgraph_type"], field["langgraph_nodes"]) == ("prompt", [module])
        assert module in graph.nodes


def test_a_granted_tool_is_a_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTFLOW_TOOLS", "my_package.tools:stock, ")
    properties = StudioConfig.model_json_schema()["properties"]
    assert properties["tools"]["items"]["enum"][-1] == "my_package.tools:stock"
    assert properties["approve_tools"]["items"]["enum"][-1] == "my_package.tools:stock"


def test_the_form_as_it_stands_sets_nothing_and_what_the_server_adds_is_passed_over() -> None:
    filled = {name: field["default"] for name, field in FIELDS.items()}
    added = {"thread_id": "1", "langgraph_request_id": "2", "__pregel_node_finished": 3, "x-header": "4"}
    found = StudioConfig(**json.loads(json.dumps(filled)), **added)
    assert found.model_dump(include=set(Context.model_fields)) == Context().model_dump()


def test_what_is_filled_in_is_where_the_modules_look() -> None:
    form = StudioConfig(
        planner_model="embedded:seed",
        models={"verifier": "atlas-oracle", "planner": "openai:overridden"},
        verifier_prompt="Judge it.",
        prompts={"generator": "Answer it."},
    )
    assert form.models == {"verifier": "atlas-oracle", "planner": "embedded:seed"}
    assert form.prompts == {"verifier": "Judge it.", "generator": "Answer it."}
    assert form.model_of("planner") == "embedded:seed"
    assert StudioConfig(verifier_prompt="").prompts == {}
    assert StudioConfig(verifier_prompt=verifier.PROMPT).prompts == {}


@pytest.mark.parametrize(("filled", "problem"), table(__file__, "studio_config.txt"))
def test_what_cannot_be_is_refused(filled: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        StudioConfig(**filled)


async def test_the_served_graph_reads_the_form_and_takes_a_context_as_it_is(scripted: Script) -> None:
    script, asked = scripted(**GUESS), question()
    far: Any = {"planner_model": script.spec, "planner_prompt": f"{planner.PROMPT} Be brief."}
    found = await graph.ainvoke(asked, context=far)
    assert found["answer"] == "hello"
    assert script.asked("planner")[0][0].text.endswith(" Be brief.")

    own = Context(model=script.spec, search_cache="use:/somewhere/search.sqlite")
    assert (await graph.ainvoke(asked, context=own))["answer"] == "hello"
    refused: Any = own.model_dump()
    with pytest.raises(Exception, match="AGENTFLOW_FILES"):
        await graph.ainvoke(asked, context=refused)


def test_any_agent_can_be_served() -> None:
    agent = build_graph([echo])
    assert for_server(agent).get_context_jsonschema() == SCHEMA
    assert agent.context_schema is Context
    assert for_server(agent).config == agent.config
