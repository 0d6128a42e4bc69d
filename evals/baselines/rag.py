"""Retrieval-augmented generation: one search with the question as it is, and one answer from what was found.

The search is one call of wikipedia_search, so that it finds what the other agents find.

Source: P. Lewis et al., "Retrieval-Augmented Generation for Knowledge-Intensive NLP Tasks", NeurIPS 2020.
"""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.tools import BaseTool
from langgraph.runtime import Runtime

from agentflow.evals.baselines.direct import SOLUTIONS
from agentflow.evals.baselines.run import ask_in_time, graph_of
from agentflow.graph.agent import Agent
from agentflow.graph.context import Context
from agentflow.graph.models.providers import Profile
from agentflow.graph.models.spec import misconfigured
from agentflow.graph.state import Action, Plan, State, Turn, Verdict
from agentflow.graph.toolbox import Toolbox
from agentflow.nodes import answer_text
from agentflow.nodes.demonstrations import OPERA
from agentflow.tools.result import ToolResult
from agentflow.tools.run import run_tool

SEARCH = "wikipedia_search"

PROMPT = """\
Answer the question from the passages. Think first if it helps, then end with:
Answer: the answer alone, in the form that the question asks for"""

PASSAGES = (
    "Sydney Opera House: A performing arts centre in Sydney, designed by the architect Jørn Utzon.",
    "Jørn Utzon: A Danish architect, born in Copenhagen on 9 April 1918.",
)
"""Passages of the example, which a small model sees answered first."""


def messages(question: str, retrieved: ToolResult, profile: Profile = "paper") -> list[BaseMessage]:
    """Return the messages of the one call."""
    found = ToolResult(status="ok", output="\n".join(PASSAGES))
    examples = [_asked(OPERA, found), AIMessage(SOLUTIONS[OPERA])] if profile == "lean" else []
    return [SystemMessage(PROMPT), *examples, _asked(question, retrieved)]


def _asked(question: str, retrieved: ToolResult) -> HumanMessage:
    return HumanMessage(f"{retrieved.describe()}\n\nQuestion: {question}")


def build_graph(tools: Sequence[BaseTool | str] = ()) -> Agent:
    """Return the compiled graph; `tools` may hold another tool of the name wikipedia_search."""
    toolbox = Toolbox(tools)

    async def retrieve(state: State, runtime: Runtime[Context]) -> dict[str, Any]:
        """Node: search for the question, in a turn of its own. Raises ModelError without the tool."""
        context = Context.of(runtime)
        tool = (await toolbox.available_tools(context)).tools.get(SEARCH)
        if tool is None:
            raise misconfigured("no_tool", f"the agent rag needs {SEARCH} among its tools")
        arguments = {"query": state.question}
        result = await run_tool(tool, arguments, state.seconds_left())
        action = Action(arguments=arguments, result=result.shortened(context.memory_tokens))
        plan = Plan(text=state.question, sub_goal=state.question, tool=SEARCH)
        return {"memory": [Turn(turn=1, plan=plan, action=action, verdict=Verdict(analysis="", signal="continue"))]}

    async def policy(state: State, runtime: Runtime[Context]) -> dict[str, Any]:
        """Node: answer the question from the passages."""
        context = Context.of(runtime)
        conversation = messages(state.question, state.memory[-1].action.result, context.profile_of("planner"))
        reply = await ask_in_time(context, "planner", conversation, state.seconds_left())
        status = "out_of_time" if reply is None else "answered"
        return {"answer": answer_text.parse(reply or ""), "status": status, "messages": [AIMessage(reply or "")]}

    return graph_of("rag", retrieve=retrieve, planner=policy)
