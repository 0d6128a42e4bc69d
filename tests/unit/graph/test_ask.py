"""`ask(question) -> answer`: the agent as one function of the server."""

from typing import Any

from langgraph.checkpoint.memory import InMemorySaver

from agentflow.graph import ask
from agentflow.graph.models.spec import ModelError
from agentflow.graph.studio_config import StudioConfig
from tests.failing import fails
from tests.scripted import GUESS, THREAD, Script


async def test_a_second_question_on_a_thread_knows_nothing_of_the_first(scripted: Script) -> None:
    script = scripted(**GUESS, generator=lambda talk: f"Answer: to {talk[1].text.splitlines()[0]}")
    context: Any = {"planner_model": script.spec}
    graph = ask.graph.copy({"checkpointer": InMemorySaver()})
    for question in ("First?", "Second?"):
        found = await graph.ainvoke({"question": question}, THREAD, context=context)
        assert found == {"answer": f"to Question: {question}", "confidence": None}
    assert set(graph.get_input_jsonschema()["properties"]) == {"question"}
    messages = (await graph.aget_state(THREAD)).values["messages"]
    assert [message.text for message in messages][2:] == ["Second?", "to Question: Second?"]


async def test_its_settings_are_a_clients() -> None:
    far: Any = {"corpus": "/etc/passwd"}
    with fails(ModelError, "not_granted", "AGENTFLOW_FILES"):
        await ask.graph.ainvoke({"question": "What?"}, context=far)
    assert ask.graph.get_context_jsonschema() == StudioConfig.model_json_schema()
