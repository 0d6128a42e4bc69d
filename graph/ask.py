"""The agent as one function, `ask(question) -> answer`: a second graph of `langgraph.json`.

The server offers each graph as a tool to MCP clients, with the graph's input as its arguments and its output as the
result. For the agent itself, these would be a conversation and the whole memory. The settings are the agent's.
"""

from typing import Annotated

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from agentflow.graph.agent import graph as agent
from agentflow.graph.context import Context
from agentflow.graph.run.runner import run
from agentflow.graph.run.task import Task
from agentflow.graph.studio_config import StudioConfig


class Question(BaseModel):
    """Input of the graph."""

    question: str = Field(description="The question, in full: the agent has no memory of earlier questions.")


class Answer(BaseModel):
    """Output of the graph."""

    answer: str
    confidence: float | None = None
    """Probability that the answer is right, where a calibration tells it."""


class Exchange(Question, Answer):
    """State of the graph; A2A clients are shown `messages`."""

    messages: Annotated[list[AnyMessage], add_messages] = Field(default_factory=list)


async def ask(state: Question, runtime: Runtime[StudioConfig]) -> dict[str, object]:
    """Run the agent on the question and return its answer."""
    asked = HumanMessage(state.question)
    trace = await run(agent, Task.from_question(state.question), Context.of(runtime))
    if trace.failure and trace.cause != "limit":
        raise trace.failure
    answer = trace.answer or trace.error
    return {"answer": answer, "confidence": trace.confidence, "messages": [asked, AIMessage(answer)]}


graph = (
    StateGraph(Exchange, context_schema=StudioConfig, input_schema=Question, output_schema=Answer)
    .add_node("ask", ask, input_schema=Question)
    .add_edge(START, "ask")
    .add_edge("ask", END)
    .compile(name="ask")
)
