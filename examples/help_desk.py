"""A LangGraph app that is not AgentFlow's, with a node that learns.

    agentflow train --preset atlas-cpu app=examples.help_desk:app out=runs/help-desk steps=20

A help desk routes each request either to a calculator or to a glossary. The `route` node asks a language model which;
everything else is ordinary code. All that training needs is below `build`: tasks, inputs and a reward. In production
the same graph runs with any model: `Policy(fallback="openai:gpt-4o-mini")`.
"""

import operator
import random
import re
from typing import Literal, TypedDict

from langchain_core.messages import HumanMessage, SystemMessage
from langgraph.graph import END, START, StateGraph

from agentflow import Policy, Sampling, Task, Trainable

PROMPT = """You choose the tool for a request: calculator or search. Answer with one line:
Tool: the name of the tool"""

OPERATORS = {"plus": operator.add, "minus": operator.sub, "times": operator.mul}

GLOSSARY = {
    "an invoice": "a bill for goods",
    "a refund": "money given back",
    "a deposit": "money paid in advance",
    "a receipt": "a proof of payment",
    "a discount": "a lower price",
    "a warranty": "a promise to repair",
    "a parcel": "a thing sent by post",
    "a courier": "someone who delivers",
    "a voucher": "a paper worth money",
    "a subscription": "a regular payment",
}


class Request(TypedDict):
    """State of the graph."""

    request: str
    tool: str
    answer: str


model = Policy(fallback="embedded", sampling=Sampling(max_tokens=24))


async def route(state: Request) -> dict[str, str]:
    """Asks the model for a tool; anything that is none of the two is "none"."""
    reply = await model.ainvoke([SystemMessage(PROMPT), HumanMessage(f"Question: {state['request']}\nTurns left: 1")])
    named = re.search(r"Tool:\s*(calculator|search)\b", str(reply.text))
    return {"tool": named.group(1) if named else "none"}


def calculate(state: Request) -> dict[str, str]:
    """Works out a sum in words."""
    asked = re.search(r"(\d+) (plus|minus|times) (\d+)", state["request"])
    return {"answer": str(OPERATORS[asked[2]](int(asked[1]), int(asked[3]))) if asked else "not a sum"}


def look_up(state: Request) -> dict[str, str]:
    """Explains a word."""
    return {
        "answer": next((says for word, says in GLOSSARY.items() if word in state["request"]), "not in the glossary")
    }


def branch(state: Request) -> Literal["calculator", "search", "__end__"]:
    """Return the node that handles the request."""
    return END if state["tool"] == "none" else state["tool"]  # type: ignore[return-value]


def build():
    """The compiled graph."""
    builder = StateGraph(Request)
    builder.add_node("route", route)
    builder.add_node("calculator", calculate)
    builder.add_node("search", look_up)
    builder.add_edge(START, "route")
    builder.add_conditional_edges("route", branch)
    builder.add_edge("calculator", END)
    builder.add_edge("search", END)
    return builder.compile(name="help desk")


def tasks(split: str, number: int) -> list[Task]:
    """Sums and words in turn; words and operators of the test are asked for in other sentences than in training."""
    rng, words = random.Random(f"help desk {split}"), sorted(GLOSSARY)
    found = []
    for position in range(number):
        if position % 2:
            word = rng.choice(words[::2] if split == "train" else words[1::2])
            request, gold, family = f"What is {word}?", GLOSSARY[word], "word"
        else:
            first, second, name = rng.randint(2, 99), rng.randint(2, 99), rng.choice(sorted(OPERATORS))
            request, gold = f"What is {first} {name} {second}?", str(OPERATORS[name](first, second))
            family = "sum"
        found.append(Task(id=f"{split}-{position}", question=request, gold=gold, family=family))
    return found


app = Trainable(
    name="help desk",
    graph=build,
    nodes=["route"],
    tasks=tasks,
    inputs=lambda task: {"request": task.question, "tool": "", "answer": ""},
    reward=lambda task, state: float(state["answer"] == task.gold),
)
