"""`ask(question) -> answer`: the agent as one function of the server."""

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from agentflow.graph import ask
from agentflow.graph.models.spec import ModelError
from agentflow.graph.studio_config import StudioConfig
from tests.failing import fails
from tests.scripted import Scripted


@pytest.fixture
def context(monkeypatch: pytest.MonkeyPatch) -> Any:
    script = Scripted(
        planner="Sub-Goal: x\nTool: base_generator\nContext: y",
        executor='{"query": "z"}',
        generator=lambda conversation: f"Answer: to {conversation[1].text.splitlines()[0]}",
    )
    script.install(monkeypatch)
    return {"planner_model": script.spec}


async def test_a_second_question_on_a_thread_knows_nothing_of_the_first(context: Any) -> None:
    graph, thread = ask.graph.copy({"checkpointer": InMemorySaver()}), {"configurable": {"thread_id": "1"}}
    for question in ("First?", "Second?"):
        found = await graph.ainvoke({"question": question}, thread, context=context)
        assert found == {"answer": f"to Question: {question}"}
    assert set(graph.get_input_jsonschema()["properties"]) == {"question"}
    messages = (await graph.aget_state(thread)).values["messages"]
    assert [message.text for message in messages][2:] == ["Second?", "to Question: Second?"]


async def test_its_settings_are_a_clients() -> None:
    far: Any = {"corpus": "/etc/passwd"}
    with fails(ModelError, "not_granted", "AGENTFLOW_FILES"):
        await ask.graph.ainvoke({"question": "What?"}, context=far)
    assert ask.graph.get_context_jsonschema() == StudioConfig.model_json_schema()
