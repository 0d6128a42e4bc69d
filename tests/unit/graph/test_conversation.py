"""The conversation: LangChain's messages out, the answer as a stream, and questions that refer to what was said."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from agentflow.graph.agent import Agent, build_graph
from agentflow.graph.context import Context
from tests.scripted import CONTINUE, PLAN, STOP, THREAD, Script, Scripted, echo, question

LONG = "The word stands in the dictionary.\nAnswer: hello"


def agent(script: Scripted, **settings: Any) -> Agent:
    return build_graph([echo], context=Context(model=script.spec, **settings), checkpointer=InMemorySaver())


# Messages


async def test_a_turn_is_a_call_and_its_result_and_the_answer_is_one_message(scripted: Script) -> None:
    found = await agent(scripted(verifier=[CONTINUE, STOP], generator=LONG)).ainvoke(question(), THREAD)
    asked, *turns, answer = found["messages"]
    assert asked.text == "Which word?"
    assert [type(message) for message in turns] == [AIMessage, ToolMessage] * 2
    for call, result in zip(turns[::2], turns[1::2], strict=True):
        assert (call.tool_calls[0]["name"], call.tool_calls[0]["args"]) == ("echo", {"text": "hello"})
        assert (result.tool_call_id, result.name, result.text) == (call.tool_calls[0]["id"], "echo", "hello")
        assert (result.status, call.text) == ("success", "repeat it")
    assert (type(answer), answer.text) == (AIMessage, "The word stands in the dictionary.\n\nhello")
    assert found["answer"] == "hello"
    assert len({message.id for message in found["messages"]}) == len(found["messages"])


@pytest.mark.parametrize(
    ("replies", "statuses"),
    [
        ({"planner": "I do not know."}, []),
        ({"planner": PLAN.replace("echo", "no such tool")}, []),
        ({"executor": '{"text": {"no": "string"}}'}, ["error"]),
        ({"executor": "I do not know."}, ["error"]),
    ],
)
async def test_a_failed_call_is_an_error_and_an_unreadable_plan_is_no_call(
    replies: dict[str, str], statuses: list[str], scripted: Script
) -> None:
    found = await agent(scripted(**replies), max_turns=1).ainvoke(question(), THREAD)
    assert [message.status for message in found["messages"] if isinstance(message, ToolMessage)] == statuses


async def test_a_call_that_was_edited_is_the_call_that_was_made(scripted: Script) -> None:
    graph = agent(scripted(), approve_tools=["echo"])
    waits = await graph.ainvoke(question(), THREAD)
    assert [message.type for message in waits["messages"]] == ["human"]
    edit = Command(resume={"decision": "edit", "arguments": {"text": "bye"}})
    found = await graph.ainvoke(edit, THREAD)
    assert [found["messages"][1].tool_calls[0]["args"], found["messages"][2].text] == [{"text": "bye"}, "bye"]


# The stream


async def test_the_answers_words_are_streamed_and_nothing_else(scripted: Script) -> None:
    long = "It is a word of five letters, which stands in the dictionary.\n**Answer:** " + "hello " * 20
    graph = agent(scripted(generator=long))
    parts = [part async for part in graph.astream(question(), THREAD, stream_mode="messages")]
    answer = (await graph.aget_state(THREAD)).values["messages"][-1]
    assert {metadata["langgraph_node"] for _, metadata in parts} == {"generator"}
    assert {type(chunk) for chunk, _ in parts} == {AIMessageChunk}
    assert {chunk.id for chunk, _ in parts} == {answer.id}
    assert len(parts) > 3
    assert "".join(chunk.text for chunk, _ in parts) == answer.text
    assert "Answer" not in answer.text


async def test_a_model_inside_a_tool_is_not_heard(scripted: Script) -> None:
    script = scripted(tools="a guess of the tool")

    @tool
    async def echo(text: str) -> str:
        """Repeats a text."""
        from agentflow.graph.models.loading import load_model

        return (await load_model(script.spec).ainvoke("Guess.")).text

    graph = build_graph([echo], context=Context(model=script.spec))
    parts = [message.text async for message, _ in graph.astream(question(), stream_mode="messages")]
    assert parts == ["hello"]


# Follow-ups


async def test_a_follow_up_is_asked_as_a_question_that_stands_by_itself(scripted: Script) -> None:
    script = scripted(generator=["Answer: Rome", "Answer: Paris"], follow_up="So.\nStandalone question: Where is B?")
    graph = agent(script)
    await graph.ainvoke(question("Where is A?"), THREAD)
    found = await graph.ainvoke(question("And B?"), THREAD)
    assert (found["question"], found["answer"], len(found["memory"])) == ("Where is B?", "Paris", 1)
    assert found["messages"][4].text == "And B?"
    [conversation] = script.asked("follow_up")
    assert [text in conversation[-1].text for text in ("User: Where is A?", "Assistant: Rome", "And B?")] == [True] * 3
    assert "repeat it" not in conversation[-1].text
    for module in ("analyst", "planner", "verifier", "generator"):
        last = str(script.asked(module)[-1])
        assert ("Where is B?" in last, "And B?" in last, "Rome" in last) == (True, False, False)


@pytest.mark.parametrize(
    ("settings", "asked"), [({}, 1), ({"model": "embedded", "corpus": "atlas"}, 0)], ids=["unreadable", "embedded"]
)
async def test_the_question_stays_where_no_rewriting_is_read_or_the_embedded_model_never_learnt_to(
    settings: dict[str, Any], asked: int, scripted: Script
) -> None:
    script = scripted(follow_up="I cannot do that.")
    graph = build_graph([echo], context=Context(**{"model": script.spec, **settings}), checkpointer=InMemorySaver())
    await graph.ainvoke({"messages": [("system", "Be brief."), ("user", "First?")]}, THREAD)
    assert script.asked("follow_up") == []
    assert (await graph.ainvoke(question("Second?"), THREAD))["question"] == "Second?"
    assert len(script.asked("follow_up")) == asked


async def test_the_embedded_model_answers_a_follow_up_that_stands_by_itself() -> None:
    graph = build_graph(checkpointer=InMemorySaver())
    found = [(await graph.ainvoke(question(f"How many feet are {n} yards?"), THREAD))["answer"] for n in (3, 5)]
    assert found == ["9", "15"]


async def test_a_long_conversation_is_read_from_its_end(scripted: Script) -> None:
    script = scripted()
    earlier = [("user", f"#{number} {'word ' * 900}") for number in range(20)]
    await build_graph([echo]).ainvoke({"messages": [*earlier, ("user", "And?")]}, context=Context(model=script.spec))
    [[_, conversation]] = script.asked("follow_up")
    assert "#19 " in conversation.text
    assert "#0 " not in conversation.text
    assert len(conversation.text) < 33_000
