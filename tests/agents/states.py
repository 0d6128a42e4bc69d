"""States of several kinds, subgraphs, calls at once, attempts that are repeated, and streams."""

import asyncio
import operator
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AnyMessage
from langgraph.graph import START, MessagesState, StateGraph, add_messages
from langgraph.types import RetryPolicy
from pydantic import BaseModel

from tests.agents.calling import both
from tests.agents.model import model
from tests.agents.structured import Sum


@dataclass
class Kept:
    messages: Annotated[list[AnyMessage], add_messages] = field(default_factory=list)
    steps: int = 0


class Checked(BaseModel):
    topic: str
    notes: Annotated[list[str], operator.add] = []


class Plain(TypedDict, total=False):
    topic: str
    notes: Annotated[list[str], operator.add]


class Asked(TypedDict):
    topic: str


async def of_messages(state: Kept) -> Any:
    return {"messages": [await model.ainvoke(state.messages)], "steps": state.steps + 1}


async def of_model(state: Checked) -> Any:
    return {"notes": [str((await model.ainvoke(f"Write about {state.topic}.")).text)]}


async def of_topic(state: Plain) -> Any:
    """Ask three times at once."""
    asked = [model.ainvoke(f"{number}: write about {state['topic']}.") for number in range(3)]
    return {"notes": [str(reply.text) for reply in await asyncio.gather(*asked)]}


def edit(state: Plain) -> Any:
    return {"notes": [str(model.invoke("Choose: " + "; ".join(state["notes"])).text)]}


def chain(state: Any, *nodes: Any, **options: Any) -> Any:
    builder = StateGraph(state, **options).add_sequence(list(nodes))
    return builder.add_edge(START, nodes[0][0] if isinstance(nodes[0], tuple) else nodes[0].__name__).compile()


dataclass_state, pydantic_state = chain(Kept, of_messages), chain(Checked, of_model)
typed_dict = chain(Plain, of_topic, edit, input_schema=Asked)
inner = chain(Plain, ("research", chain(Plain, of_topic)), edit)
nested = chain(Plain, ("team", inner), ("again", edit))


async def streamed(state: MessagesState) -> Any:
    parts = [part async for part in both.astream(state["messages"])]
    return {"messages": [sum(parts[1:], parts[0])]}


def read(reply: Any) -> Any:
    """Refuse a reply that is no call, as code that wants an answer in a form does."""
    return Sum.model_validate(reply.tool_calls[0]["args"])


form = model.bind_tools([Sum], tool_choice="Sum") | read


async def tried(state: MessagesState) -> Any:
    retried = form.with_retry(stop_after_attempt=3, wait_exponential_jitter=False)
    return {"messages": [("ai", str(await retried.ainvoke(state["messages"])))]}


async def filled_in(state: MessagesState) -> Any:
    return {"messages": [("ai", str(await form.ainvoke(state["messages"])))]}


streaming, with_retry = chain(MessagesState, streamed), chain(MessagesState, tried)
again = RetryPolicy(initial_interval=0.001, jitter=False, retry_on=Exception)
retry_policy = StateGraph(MessagesState).add_node("filled_in", filled_in, retry_policy=again)
retry_policy = retry_policy.add_edge(START, "filled_in").compile()
