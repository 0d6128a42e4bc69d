"""A graph that writes what it is asked into a store, a saver and a cache that it was compiled with."""

from dataclasses import dataclass
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.memory import InMemoryStore
from langgraph.types import CachePolicy

from tests.agents.model import model


@dataclass
class Context:
    """What LangChain's templates have: settings with defaults."""

    user_id: str = "somebody"
    greeting: str = "Hello"


async def remember(state: MessagesState, runtime: Runtime[Context]) -> Any:
    assert runtime.store
    place = (runtime.context.user_id,)
    known = await runtime.store.asearch(place)
    await runtime.store.aput(place, "asked", {"text": state["messages"][0].text})
    texts = "".join(f" {item.value['text']}" for item in known)
    said = f"{runtime.context.greeting} {runtime.context.user_id}, {len(known)} known{texts}"
    return {"messages": [HumanMessage(said)]}


async def answer(state: MessagesState) -> Any:
    return {"messages": [await model.ainvoke(state["messages"])]}


builder = StateGraph(MessagesState, context_schema=Context)
builder.add_node(remember)
builder.add_node("answer", answer, cache_policy=CachePolicy(key_func=lambda state: "same"))
builder.add_edge(START, "remember")
builder.add_edge("remember", "answer")
saver = InMemorySaver()
bare = builder.compile()
stored = builder.compile(checkpointer=InMemorySaver(), store=InMemoryStore(), cache=InMemoryCache())
