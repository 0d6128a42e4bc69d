"""The direct answer: one call of the planner's model, without tools."""

from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langgraph.runtime import Runtime

from agentflow.evals.baselines.run import ask_in_time, graph_of
from agentflow.graph.agent import Agent
from agentflow.graph.context import Context
from agentflow.graph.models.providers import Profile
from agentflow.graph.state import State
from agentflow.nodes import answer_text
from agentflow.nodes.demonstrations import OPERA, ROLLS, SIGNS

PROMPT = """\
Answer the question. Think first if it helps, then end with:
Answer: the answer alone, in the form that the question asks for"""

SOLUTIONS = {
    ROLLS: "From 8:00 to 18:30 are 10 hours and 30 minutes, so 10.5 hours. In 10 hours it sells 36 * 10 = 360 rolls, "
    "in half an hour 36 / 2 = 18. Together 360 + 18 = 378.\nAnswer: 378",
    SIGNS: "2 * 5 is 10, and 10 + 3 is 13.\nAnswer: 2 * 5 + 3",
    OPERA: "The architect was Jørn Utzon, who was born in Copenhagen.\nAnswer: Denmark",
}
"""Replies to the questions of AgentFlow's own examples, which a small model sees first."""


def messages(question: str, prompt: str = PROMPT, profile: Profile = "paper") -> list[BaseMessage]:
    """Return the messages of the one call; the examples stand after our own prompt alone."""
    shown = SOLUTIONS.items() if profile == "lean" and prompt == PROMPT else ()
    examples = [one for asked, reply in shown for one in (HumanMessage(f"Question: {asked}"), AIMessage(reply))]
    return [SystemMessage(prompt), *examples, HumanMessage(f"Question: {question}")]


async def planner(state: State, runtime: Runtime[Context]) -> dict[str, Any]:
    """Node: answer the question; the run's own prompt of the generator takes the place of ours."""
    context = Context.of(runtime)
    prompt = context.prompts.get("generator", PROMPT)
    conversation = messages(state.question, prompt, context.profile_of("planner"))
    reply = await ask_in_time(context, "planner", conversation, state.seconds_left())
    status = "out_of_time" if reply is None else "answered"
    return {"answer": answer_text.parse(reply or ""), "status": status, "messages": [AIMessage(reply or "")]}


def build_graph() -> Agent:
    """Return the compiled graph."""
    return graph_of("direct", planner=planner)
