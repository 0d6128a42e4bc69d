"""A LangGraph app that is not AgentFlow's, with a node that learns.

    agentflow train examples.help_desk:app --preset atlas-cpu out=runs/help-desk steps=12 questions=16

A help desk plans one step for a request: a calculation, or a look-up in its list of firms. The `plan` node asks a
language model; everything else is ordinary code. The prompt is AgentFlow's own, since the shipped model knows no other,
and it plans with mistakes, which a reward shows. All that training needs is below `build`: tasks, inputs and a reward.
In production the same graph runs with any model: `Policy(fallback="openai:gpt-4o-mini")`.
"""

import operator
import random
import re
from typing import Literal, TypedDict

from langgraph.graph import END, START, StateGraph

from agentflow import Policy, Sampling, Task, Trainable
from agentflow.nodes.planner import describe_tools, messages
from agentflow.tools.catalogue import standard_cards

OPERATORS = {"plus": ("+", operator.add), "minus": ("-", operator.sub), "times": ("*", operator.mul)}

FIRMS = {
    "Dakofel": "Lisbon",
    "Femuran": "Oslo",
    "Gorabit": "Lima",
    "Kelumor": "Cairo",
    "Lopitas": "Dublin",
    "Nabezul": "Vienna",
    "Pirozan": "Quito",
    "Sutelak": "Madrid",
    "Tuvamis": "Accra",
    "Zitasut": "Hanoi",
}
"""Where firms are based."""

TOOLS = describe_tools(standard_cards(["base_generator", "python_coder", "wikipedia_search"]).values())


class Request(TypedDict):
    """State of the graph."""

    request: str
    tool: str
    given: str
    answer: str


model = Policy(fallback="embedded", sampling=Sampling(max_tokens=48))


async def plan(state: Request) -> dict[str, str]:
    """Asks the model for a tool and what to give it; anything that is none of the two tools is "none"."""
    analysis = "Asked for: a number. Takes: a calculation."
    if not re.search(r"\d", state["request"]):
        analysis = "Asked for: the base of a firm. Takes: a search."
    reply = await model.ainvoke(messages(state["request"], analysis, [], TOOLS, max_turns=1))
    tool = re.search(r"Tool: (python_coder|wikipedia_search)$", str(reply.text), re.MULTILINE)
    given = re.search(r"Context: (.*)", str(reply.text))
    return {"tool": tool[1] if tool and given else "none", "given": given[1] if given else ""}


def calculate(state: Request) -> dict[str, str]:
    """Works out a sum."""
    asked = re.fullmatch(r"(\d{1,9}) ([-+*]) (\d{1,9})", state["given"])
    works = dict(OPERATORS.values())
    return {"answer": str(works[asked[2]](int(asked[1]), int(asked[3]))) if asked else "not a sum"}


def look_up(state: Request) -> dict[str, str]:
    """Tells where a firm is based."""
    return {"answer": FIRMS.get(state["given"], "no such firm")}


def branch(state: Request) -> Literal["python_coder", "wikipedia_search", "__end__"]:
    """Return the node that handles the request."""
    return END if state["tool"] == "none" else state["tool"]  # type: ignore[return-value]


def build():
    """The compiled graph."""
    builder = StateGraph(Request)
    builder.add_node("plan", plan)
    builder.add_node("python_coder", calculate)
    builder.add_node("wikipedia_search", look_up)
    builder.add_edge(START, "plan")
    builder.add_conditional_edges("plan", branch)
    builder.add_edge("python_coder", END)
    builder.add_edge("wikipedia_search", END)
    return builder.compile(name="help desk")


def tasks(split: str, number: int) -> list[Task]:
    """Sums and firms in turn; the firms of the test are not asked for in training."""
    rng, names = random.Random(f"help desk {split}"), sorted(FIRMS)
    found = []
    for position in range(number):
        if position % 3 == 2:
            name = rng.choice(names[::2] if split == "train" else names[1::2])
            request, gold, family = f"What is the base of {name}, the firm?", FIRMS[name], "firm"
        else:
            first, second, name = rng.randint(2, 99), rng.randint(2, 99), rng.choice(sorted(OPERATORS))
            request, gold = f"What is {first} {name} {second}?", str(OPERATORS[name][1](first, second))
            family = "sum"
        found.append(Task(id=f"{split}-{position}", question=request, gold=gold, family=family))
    return found


app = Trainable(
    name="help desk",
    graph=build,
    nodes=["plan"],
    tasks=tasks,
    inputs=lambda task: {"request": task.question, "tool": "", "given": "", "answer": ""},
    reward=lambda task, state: float(state["answer"] == task.gold),
)
