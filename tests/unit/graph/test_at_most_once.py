"""Calls with side effects: one process makes them, and another one that resumes from the mark does not."""

import asyncio
from typing import Any

import pytest
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from agentflow.graph.agent import Agent, build_graph
from agentflow.graph.checkpoints import StateSerializer
from agentflow.graph.context import Context
from agentflow.graph.models.spec import ModelError
from agentflow.tools.result import ErrorClass
from tests.scripted import CONTINUE, PLAN, STOP, THREAD, Script, Scripted, question

SEND = PLAN.replace("echo", "send")
QUESTION = question()


class Killed(BaseException):
    """Exception in place of a signal, which nothing in between catches."""


class Post:
    """Return the letters that were sent; the first ones are lost with the process."""

    def __init__(self, crashes: int = 0) -> None:
        self.sent: list[str] = []
        self.crashes = crashes

    def tool(self, **card: Any) -> BaseTool:
        async def send(text: str) -> str:
            """Sends a letter."""
            self.sent.append(text)
            if len(self.sent) <= self.crashes:
                raise Killed
            return "sent"

        return StructuredTool.from_function(coroutine=send, name="send", metadata={"agentflow": card})


async def crashed(script: Scripted, post: Post, approve: bool = False, **card: Any) -> tuple[Agent, Context]:
    """A run that was killed during a call, as another process finds it."""
    saver, context = InMemorySaver(), Context(model=script.spec, approve_tools=["send"] if approve else [])
    graph = build_graph([post.tool(**card)], checkpointer=saver)
    if approve:
        assert (await graph.ainvoke(QUESTION, THREAD, context=context))["__interrupt__"]
    with pytest.raises(Killed):
        await graph.ainvoke(Command(resume="approve") if approve else QUESTION, THREAD, context=context)
    return build_graph([post.tool(**card)], checkpointer=saver), context


async def test_an_interrupted_call_is_not_repeated_and_the_planner_is_told(scripted: Script) -> None:
    script, post = scripted(planner=SEND, verifier=[CONTINUE, STOP]), Post(crashes=1)
    graph, context = await crashed(script, post)
    assert post.sent == ["hello"]
    script.replies["planner"] = "Sub-Goal: look\nTool: base_generator\nContext: hello"
    script.replies["executor"] = '{"query": "Was it sent?"}'
    found = await graph.ainvoke(None, THREAD, context=context)
    first = found["memory"][0].action
    assert (post.sent, first.arguments, first.result.error) == (["hello"], {"text": "hello"}, ErrorClass.UNCERTAIN)
    assert "Failed (uncertain): the run was interrupted when it called send" in script.asked("planner")[1][-1].text
    assert (found["answer"], found["status"], len(script.asked("executor"))) == ("hello", "answered", 2)


async def test_a_tool_that_says_it_has_none_is_repeated(scripted: Script) -> None:
    script, post = scripted(planner=SEND), Post(crashes=1)
    graph, context = await crashed(script, post, side_effects=False)
    found = await graph.ainvoke(None, THREAD, context=context)
    assert (post.sent, found["memory"][0].action.result.output) == (["hello", "hello"], "sent")


@pytest.mark.parametrize("again", [False, True])
async def test_a_person_is_asked_whether_to_repeat_it(again: bool, scripted: Script) -> None:
    """Also where a client, who has had no reply, approves the call again."""
    script, post = scripted(planner=SEND), Post(crashes=1)
    graph, context = await crashed(script, post, approve=True)
    asked = await graph.ainvoke(Command(resume="approve") if again else None, THREAD, context=context)
    assert "may have been carried out" in asked["__interrupt__"][0].value["note"]
    assert post.sent == ["hello"]
    found = await graph.ainvoke(Command(resume="approve"), THREAD, context=context)
    assert (post.sent, found["memory"][0].action.result.output) == (["hello", "hello"], "sent")


class ForInvoke(InMemorySaver):
    """As LangGraph's SqliteSaver is, which has no async methods."""

    async def aget_tuple(self, *_: Any) -> Any:
        raise NotImplementedError

    async def aput_writes(self, *_: Any) -> Any:
        raise NotImplementedError


class Around:
    """A graph whose node is the agent, as each of several processes finds it."""

    def __init__(self, script: Scripted, post: Post, saver: type[InMemorySaver] = InMemorySaver) -> None:
        self.saver, self.post = saver(serde=StateSerializer()), post
        self.context = Context(model=script.spec, approve_tools=["send"])

    async def ainvoke(self, given: Any) -> dict[str, Any]:
        builder = StateGraph(MessagesState).add_node("agent", build_graph([self.post.tool()], context=self.context))
        graph = builder.add_edge(START, "agent").compile(checkpointer=self.saver)
        if isinstance(self.saver, ForInvoke):
            return await asyncio.to_thread(graph.invoke, given, THREAD, durability="sync")
        return await graph.ainvoke(given, THREAD, durability="sync")


async def test_in_another_graph_too_a_person_is_asked_whether_to_repeat_it(scripted: Script) -> None:
    around = Around(scripted(planner=SEND), post := Post(crashes=1))
    assert (await around.ainvoke(QUESTION))["__interrupt__"]
    with pytest.raises(Killed):
        await around.ainvoke(Command(resume="approve"))
    asked = await around.ainvoke(None)
    assert "may have been carried out" in asked["__interrupt__"][0].value["note"]
    assert post.sent == ["hello"]


@pytest.mark.parametrize("saver", [InMemorySaver, ForInvoke])
async def test_in_another_graph_an_approval_is_for_one_call_also_after_a_failure(
    saver: type[InMemorySaver], scripted: Script
) -> None:
    verdicts: list[Exception | str] = [ModelError("the server is down"), CONTINUE, STOP]

    def verifier(_: Any) -> str:
        if isinstance(verdict := verdicts.pop(0), Exception):
            raise verdict
        return verdict

    calls = ['{"text": "first"}', '{"text": "second"}']
    around = Around(scripted(planner=SEND, verifier=verifier, executor=calls), post := Post(), saver)
    assert (await around.ainvoke(QUESTION))["__interrupt__"]
    with pytest.raises(ModelError):
        await around.ainvoke(Command(resume="approve"))
    for _ in range(2):
        asked = await around.ainvoke(None)
        assert asked["__interrupt__"][0].value["arguments"] == {"text": "second"}
    assert post.sent == ["first"]
    await around.ainvoke(Command(resume="approve"))
    assert post.sent == ["first", "second"]


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_tool_that_asks_a_person_itself_is_called_again_with_the_answer(
    elsewhere: bool, scripted: Script
) -> None:
    async def send(text: str) -> str:
        """Sends a letter, if a person says so."""
        return f"sent: {interrupt('really?')} {interrupt('surely?')}"

    script, saver = scripted(planner=SEND), InMemorySaver()
    asking = StructuredTool.from_function(coroutine=send, name="send")
    graph, context = build_graph([asking], checkpointer=saver), Context(model=script.spec)
    assert (await graph.ainvoke(QUESTION, THREAD, context=context))["__interrupt__"][0].value == "really?"
    for answer in ("yes", "so"):
        graph = build_graph([asking], checkpointer=saver) if elsewhere else graph
        found = await graph.ainvoke(Command(resume=answer), THREAD, context=context)
    assert found["memory"][0].action.result.output == "sent: yes so"


async def test_a_graph_with_a_checkpointer_is_durable_by_default(scripted: Script) -> None:
    """The mark is written before the call begins, not beside it."""
    script, saver = scripted(planner=SEND), InMemorySaver(serde=StateSerializer())
    marks: list[str] = []

    async def send(text: str) -> str:
        """Sends a letter."""
        kept = saver.get_tuple(THREAD)
        assert kept is not None
        marks.append(kept.checkpoint["channel_values"]["pending_call"].mark)
        return "sent"

    put = saver.aput

    async def aput(*given: Any) -> Any:
        for _ in range(100):  # a slow disk, beside which the next step would begin
            await asyncio.sleep(0)
        return await put(*given)

    saver.aput = aput  # type: ignore[method-assign]
    graph = build_graph([StructuredTool.from_function(coroutine=send, name="send")], checkpointer=saver)
    await graph.ainvoke(QUESTION, THREAD, context=Context(model=script.spec))
    assert len(marks) == 1
    assert len(marks[0]) == 32
