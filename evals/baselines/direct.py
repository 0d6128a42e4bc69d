"""The direct answer: one call of the planner's model, without tools."""

from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langgraph.runtime import Runtime

from agentflow.evals.baselines.run import ask_in_time, graph_of
from agentflow.graph.agent import Agent
from agentflow.graph.context import Context
from agentflow.graph.state import State
from agentflow.nodes import answer_text

PROMPT = """\
Answer the question. Think first if it helps, then end with:
Answer: the answer alone, in the form that the question asks for"""


def messages(question: str, prompt: str = PROMPT) -> list[BaseMessage]:
    """Return the messages of the one call."""
    return [SystemMessage(prompt), HumanMessage(f"Question: {question}")]


async def planner(state: State, runtime: Runtime[Context]) -> dict[str, Any]:
    """Node: answer the question; the run's own prompt of the generator takes the place of ours."""
    context = Context.of(runtime)
    conversation = messages(state.question, context.prompts.get("generator", PROMPT))
    reply = await ask_in_time(context, "planner", conversation, state.seconds_left())
    status = "out_of_time" if reply is None else "answered"
    return {"answer": answer_text.parse(reply or ""), "status": status, "messages": [AIMessage(reply or "")]}


def build_graph() -> Agent:
    """Return the compiled graph."""
    return graph_of("direct", planner=planner)
