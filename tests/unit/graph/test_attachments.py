"""Images and files reach the modules that read the question, or are refused by name."""

from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from agentflow.graph.agent import build_graph
from agentflow.graph.context import Context
from agentflow.graph.models.spec import ModelError
from agentflow.graph.state import InputState, State
from agentflow.nodes.analyst import begin
from agentflow.nodes.attachments import LINES, MAX_SHOWN, openable, with_files
from tests.failing import fails
from tests.scripted import THREAD, Script, ScriptedModel, echo

IMAGE: dict[str, Any] = {"type": "image", "base64": "aGk=", "mime_type": "image/png", "filename": "chart.png"}
PDF: dict[str, Any] = {"type": "file", "base64": "aGk=", "mime_type": "application/pdf", "filename": "paper.pdf"}
NOTES: dict[str, Any] = {"type": "text-plain", "text": "The word is hello.", "mime_type": "text/plain"}
TABLE = "day,units\n" + "2024-05-02,7\n" * MAX_SHOWN
BEGINS = "The file {}, which a program can open, has {} lines, and begins with:"
PROSE = TABLE.replace("7", "seven")
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


def file(name: str, text: str) -> dict[str, Any]:
    return {"type": "text-plain", "mime_type": "text/plain", "title": name, "text": text}


@pytest.mark.parametrize(
    ("tool", "name", "text", "shown"),
    [
        ("python_coder", "a.csv", "x,y\n1,2\n", ["The file a.csv, which a program can open:", "x,y", "1,2"]),
        ("base_generator", "a.csv", "x,y\n1,2\n", ["a.csv:", "x,y", "1,2"]),
        ("python_coder", "A.CSV", TABLE, [BEGINS.format("A.CSV", MAX_SHOWN + 1), *TABLE.splitlines()[:LINES]]),
        ("python_coder", "a.json", "1" * 9999, [BEGINS.format("a.json", 1), "1" * MAX_SHOWN]),
        ("base_generator", "a.csv", TABLE, ["a.csv:", *TABLE.splitlines()]),
        ("python_coder", "a.txt", PROSE, ["The file a.txt, which a program can open:", *PROSE.splitlines()]),
    ],
)
def test_a_question_has_its_files_and_of_a_long_table_the_beginning(
    tool: str, name: str, text: str, shown: list[str]
) -> None:
    messages, context = [asked("How many?", file(name, text))], Context(tools=[tool])
    found = with_files("How many?", messages, context)
    assert found.splitlines() == ["How many?", "", *shown]
    assert begin(InputState(messages=messages), context)["question"] == found  # which the baselines call


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("a.csv", "a.csv"),
        ("/home/me/a.csv", "a.csv"),
        ("../../a.csv", "a.csv"),
        ("a\n\x00.csv", "a.csv"),
        ("x" * 300 + ".csv", "x" * 56 + ".csv"),
        ("..", None),
        ("a/", None),
        ("", None),
    ],
)
def test_a_file_is_opened_by_the_end_of_its_name(title: str, name: str | None) -> None:
    assert openable([asked("How many?", file(title, "1"))]) == ({name: "1"} if name else {})


async def test_a_program_opens_them_in_later_questions_too(scripted: Script) -> None:
    script = scripted(
        planner="Sub-Goal: read it\nTool: python_coder\nContext: a.csv",
        executor="{\"code\": \"print(gcd(4, 6), open('a.csv').read(), open('program.py').read())\"}",
        follow_up="Standalone question: And now?",
    )
    graph = build_graph(context=Context(model=script.spec, max_turns=1), checkpointer=InMemorySaver())
    first = [file("a.csv", "old"), file("a.csv", "x,\u00e9\n"), file("program.py", "no")]
    state = State.model_validate(await graph.ainvoke({"messages": [asked("How many?", *first)]}, THREAD))
    assert state.memory[0].action.result.output == "2 x,\u00e9\n no"
    state = State.model_validate(await graph.ainvoke({"messages": [HumanMessage("And now?")]}, THREAD))
    assert state.memory[0].action.result.output == "2 x,\u00e9\n no"
    assert state.question.startswith("And now?\n\nThe file a.csv, which a program can open:\nx,\u00e9\n\nThe file")
    assert "a.csv" not in script.asked("follow_up")[0][1].text
