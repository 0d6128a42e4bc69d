"""The agent inside other people's applications: as a subgraph, a link of a chain, a tool, with nodes of their own."""

import asyncio
from functools import partial
from typing import Any, TypedDict

import pytest
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError, InvalidUpdateError
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command

from agentflow.graph.agent import build_graph
from agentflow.graph.as_tool import build_tool
from agentflow.graph.context import Context
from agentflow.graph.state import State, Verdict
from agentflow.nodes.analyst import begin
from agentflow.nodes.verifier import close
from tests.cases import table
from tests.scripted import CONTINUE, PLAN, THREAD, Script, echo, question

# A node of another graph


class TheirContext(TypedDict):
    user: str


def parent(agent: Any, checkpointer: Any = None) -> CompiledStateGraph[Any, TheirContext, Any, Any]:
    builder = StateGraph(MessagesState, context_schema=TheirContext)
    builder.add_node("greet", lambda state: {"messages": [HumanMessage("Which word?")]})
    builder.add_node("agent", agent)
    builder.add_edge(START, "greet")
    builder.add_edge("greet", "agent")
    builder.add_edge("agent", END)
    return builder.compile(checkpointer=checkpointer)


async def test_a_subgraph_that_shares_the_messages(scripted: Script) -> None:
    """The parent has a context of its own, so the settings are those that the graph was built with."""
    script = scripted(verifier=CONTINUE)
    agent = build_graph([echo], context=Context(model=script.spec, tools=["base_generator"], max_turns=2))
    app = parent(agent)
    found = await app.ainvoke({"messages": []}, context={"user": "me"})
    assert [message.text for message in found["messages"]] == ["Which word?", *["repeat it", "hello"] * 2, "hello"]
    assert set(found) == {"messages"}
    assert len(script.asked("planner")) == 2
    assert "Turns left: 2" in script.asked("planner")[0][-1].text
    found = app.invoke({"messages": []}, context={"user": "me"})
    assert found["messages"][-1].text == "hello"


async def test_a_call_inside_a_subgraph_can_wait_and_each_question_starts_with_an_empty_memory(
    scripted: Script,
) -> None:
    script = scripted()
    app = parent(build_graph([echo], context=Context(model=script.spec, approve_tools=["echo"])), InMemorySaver())
    for asked in (1, 2):
        found = await app.ainvoke({"messages": []}, THREAD, context={"user": "me"})
        assert found["__interrupt__"][0].value["tool"] == "echo"
        found = await app.ainvoke(Command(resume={"decision": "approve"}), THREAD, context={"user": "me"})
        assert found["messages"][-1].text == "hello"
        assert len(script.asked("executor")) == asked
    assert [len(talk) for talk in script.asked("planner")] == [2, 2]


# Whose settings count


async def test_a_runs_own_context_replaces_the_graphs_whole(scripted: Script) -> None:
    script = scripted(verifier=CONTINUE)
    graph = build_graph([echo], context=Context(model=script.spec, max_turns=1, tools=["base_generator"]))
    assert (await graph.ainvoke(question()))["status"] == "out_of_turns"
    assert len(script.asked("planner")) == 1
    assert "python_coder" not in script.asked("planner")[0][0].text
    found = await graph.ainvoke(question(), context=Context(model=script.spec, max_turns=3))
    assert len(found["memory"]) == 3
    assert "python_coder" in script.asked("planner")[-1][0].text


@pytest.mark.parametrize("name", ["model", "tools", "max_turns"])
async def test_a_setting_in_configurable_is_refused_where_it_would_be_ignored(name: str, scripted: Script) -> None:
    script = scripted()
    config: Any = {"configurable": {"thread_id": "1", name: "x"}}
    graph = build_graph([echo], context=Context(model=script.spec))
    for call in (
        partial(graph.invoke, config=config),
        partial(graph.stream, config=config),
        graph.with_config(config).invoke,
    ):
        with pytest.raises(ValueError, match=rf"takes no {name}; pass context=Context\({name}="):
            list(call(question()))
    with pytest.raises(ValueError, match=name):
        await graph.ainvoke(question(), config)
    assert not script.calls
    # A name of another program's own, and one beside the settings, as LangGraph's server sends it.
    chain = RunnableLambda(lambda text: question(text)) | graph
    assert chain.invoke("?", config)["answer"] == "hello"
    assert (await parent(graph).ainvoke({"messages": []}, config))["messages"][-1].text == "hello"
    assert (await graph.ainvoke(question(), config, context=Context(model=script.spec)))["answer"] == "hello"


# LangChain's limit


async def test_long_runs_are_not_cut_short_by_langchains_limit(scripted: Script) -> None:
    """LangChain gives chains and batches a recursion limit of 25, which is seven turns."""
    script = scripted(verifier=CONTINUE)
    agent = build_graph([echo], context=Context(model=script.spec, max_turns=12))
    link = RunnableLambda(lambda text: question(text)) | agent
    found = [link.invoke("?"), await link.ainvoke("?"), *agent.batch([question()] * 2)]
    found += [*(await agent.abatch([question()] * 2)), agent.invoke(question())]
    found += [update async for update in link.astream("?")][-1:]
    assert [len(state["memory"]) for state in found[:-1]] == [12] * 7
    assert "generator" in found[-1]
    parent_found = await parent(agent).ainvoke({"messages": []}, context={"user": "me"})
    assert parent_found["messages"][-1].text == "hello"
    with pytest.raises(GraphRecursionError, match="10"):  # one that a run gives counts
        await agent.ainvoke(question(), {"recursion_limit": 10})


# A tool of another agent


async def test_the_tool_as_models_see_it(scripted: Script) -> None:
    agent_tool = build_tool(Context(model=scripted().spec), [echo], name="research", description="Finds out.")
    assert (agent_tool.name, agent_tool.description) == ("research", "Finds out.")
    assert list(agent_tool.args) == ["question"]
    assert await agent_tool.ainvoke({"question": "Which word?"}) == "hello"
    assert agent_tool.invoke({"question": "Which word?"}) == "hello"


def test_an_async_tool_may_invoke_an_agent(scripted: Script) -> None:
    inner = build_graph([echo], context=Context(model=scripted().spec))

    async def wait(text: str) -> str:
        """Ask another agent, and wait."""
        return str(inner.invoke(question(text))["answer"])

    script = scripted(planner=PLAN.replace("echo", "wait"))
    found = build_graph([wait], context=Context(model=script.spec)).invoke(question())
    assert found["memory"][0].action.result.output == "hello"


CALL = {"type": "tool_call", "id": "1", "name": "agentflow", "args": {"question": "Which word?"}}


async def test_what_went_wrong_is_what_the_tool_says(scripted: Script) -> None:
    def fail(_: list[BaseMessage]) -> str:
        raise RuntimeError("out of order")

    unverified = build_tool(Context(model=scripted(verifier=CONTINUE).spec, max_turns=1), [echo])
    assert await unverified.ainvoke({"question": "?"}) == "hello\n(Not verified: it ran out of turns.)"
    for context, said in (
        (Context(model=scripted(planner=fail).spec), "out of order"),
        (Context(model="nobody:at-home"), "no model provider 'nobody'"),
        (Context(model=scripted(generator=" ").spec), "the model gave no answer"),
    ):
        for reply in (await build_tool(context, [echo]).ainvoke(CALL), build_tool(context, [echo]).invoke(CALL)):
            assert (reply.status, said in reply.text) == ("error", True)


# Nodes of one's own


def strict(state: State, runtime: Runtime[Context]) -> dict[str, Any]:
    """Stops at the first result that is not a failure."""
    assert state.action
    done = state.action.result.status == "ok"
    verdict = Verdict(analysis="It ran." if done else "It failed.", signal="stop" if done else "continue")
    return close(state, verdict, Context.of(runtime))


async def strict_async(state: State, runtime: Runtime[Context]) -> dict[str, Any]:
    await asyncio.sleep(0)
    return strict(state, runtime)


class Strict:
    async def __call__(self, state: State, runtime: Runtime[Context]) -> dict[str, Any]:
        return strict(state, runtime)


@pytest.mark.parametrize("verifier", [strict, strict_async, Strict()], ids=["sync", "async", "object"])
async def test_a_verifier_of_ones_own(verifier: Any, scripted: Script) -> None:
    script = scripted(planner=["nothing", PLAN])
    graph = build_graph([echo], nodes={"verifier": verifier}, context=Context(model=script.spec))
    for found in (await graph.ainvoke(question()), graph.invoke(question())):
        assert [turn.verdict.signal for turn in found["memory"]][-1] == "stop"
        assert (found["status"], found["answer"]) == ("answered", "hello")
        script.calls.clear()
    assert not script.asked("verifier")


async def test_every_node_of_ones_own() -> None:
    """No model is asked; values may come as plain data."""
    nodes: dict[str, Any] = {
        "analyst": lambda state, runtime: {**begin(state, Context.of(runtime)), "analysis": "short"},
        "planner": lambda state, _: {"plan": {"text": "a plan", "sub_goal": state.analysis, "tool": "echo"}},
        "executor": lambda state, _: {"action": {"result": {"status": "ok", "output": state.plan.sub_goal}}},
        "verifier": strict,
        "generator": lambda state, _: {"answer": state.memory[-1].action.result.output, "messages": ("ai", "said")},
    }
    found = await build_graph(nodes=nodes, context=Context(model="nobody:at-home")).ainvoke(question())
    assert (found["answer"], found["messages"][-1].text, len(found["memory"])) == ("short", "said", 1)


MISTAKES = [pytest.param(*case, id=title) for title, *case in table(__file__, "mistakes.txt")]


@pytest.mark.parametrize(("name", "update", "field"), MISTAKES)
async def test_a_wrong_update_names_the_node_and_the_field(
    name: str, update: Any, field: str, scripted: Script
) -> None:
    graph = build_graph([echo], nodes={name: lambda state, runtime: update}, context=Context(model=scripted().spec))
    with pytest.raises(InvalidUpdateError, match=rf"'{name}'.*\b{field}\b"):
        await graph.ainvoke(question())


@pytest.mark.parametrize("nodes", [{"verifer": strict}, {"verifier": "strict"}])
def test_a_wrong_node_is_named(nodes: Any) -> None:
    with pytest.raises(ValueError, match=f"'{next(iter(nodes))}'"):
        build_graph(nodes=nodes)
