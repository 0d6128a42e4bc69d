"""Images and files reach the modules that read the question, or are refused by name."""

from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from agentflow.graph.agent import build_graph
from agentflow.graph.context import Context
from agentflow.graph.models.spec import ModelError
from tests.failing import fails
from tests.scripted import THREAD, Script, ScriptedModel, echo

IMAGE: dict[str, Any] = {"type": "image", "base64": "aGk=", "mime_type": "image/png", "filename": "chart.png"}
PDF: dict[str, Any] = {"type": "file", "base64": "aGk=", "mime_type": "application/pdf", "filename": "paper.pdf"}
NOTES: dict[str, Any] = {"type": "text-plain", "text": "The word is hello.", "mime_type": "text/plain"}
OLDER: dict[str, Any] = {"type": "image", "source_type": "base64", "data": "aGk=", "mime_type": "image/png"}
OPENAI: dict[str, Any] = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}


def asked(text: str, *blocks: dict[str, Any]) -> HumanMessage:
    return HumanMessage([{"type": "text", "text": text}, *blocks])


async def test_they_reach_the_modules_that_read_the_question(scripted: Script) -> None:
    script = scripted()
    graph = build_graph([echo], context=Context(model=script.spec), checkpointer=InMemorySaver())
    await graph.ainvoke({"messages": [asked("Which word?", NOTES, IMAGE)]}, THREAD)
    for module in ("analyst", "planner", "verifier", "generator"):
        [(_, question, *_)] = script.asked(module)
        assert question.content[1:] == [IMAGE]
        assert "Which word?\n\nThe word is hello." in question.text
    assert [message.content for message in script.asked("executor")[0]][1] == "Sub-Goal: repeat it\nContext: hello"
    await graph.ainvoke({"messages": [HumanMessage("And what colour is it?")]}, THREAD)
    assert script.asked("follow_up")[0][1].content[1:] == [IMAGE]
    assert script.asked("planner")[1][1].content[1:] == [IMAGE]


@pytest.mark.parametrize(
    ("block", "named"), [(IMAGE, "chart.png"), (PDF, "paper.pdf"), (OLDER, "the image"), (OPENAI, "the image")]
)
async def test_a_model_that_takes_none_refuses_by_name(block: dict[str, Any], named: str, scripted: Script) -> None:
    script = scripted()
    graph = build_graph([echo])
    context = Context(model=script.spec, models={"verifier": "embedded"})
    with fails(ModelError, "no_attachments", named, "embedded", "verifier", configuration=True):
        await graph.ainvoke({"messages": [asked("What is it?", block)]}, context=context)
    assert script.calls == []


async def test_a_models_profile_decides(scripted: Script) -> None:
    model = ScriptedModel(script=scripted().name, profile={"image_inputs": True, "pdf_inputs": False})
    graph = build_graph([echo], model=model)
    assert (await graph.ainvoke({"messages": [asked("What is it?", IMAGE)]}))["answer"] == "hello"
    with pytest.raises(ModelError, match=r"paper\.pdf"):
        await graph.ainvoke({"messages": [asked("What is it?", PDF)]})
