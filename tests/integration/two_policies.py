"""An app of two nodes, each with a policy of its own, of which only one has anything to learn."""

from typing import Any

from langgraph.graph import END, START, MessagesState, StateGraph

from agentflow import Policy, Task, Trainable
from agentflow.graph.context import Sampling

LEARNS, SETTLED = "first", "second"


def app() -> Trainable:
    """Build the app. Odd tasks go to `first`, whose rewards differ; even ones to `second`, whose rewards are equal."""
    model = Policy(sampling=Sampling(max_tokens=6))

    async def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    def chosen(state: MessagesState) -> str:
        return LEARNS if _odd(str(state["messages"][0].text)) else SETTLED

    builder = StateGraph(MessagesState)
    for name in (LEARNS, SETTLED):
        builder.add_node(name, answer)
        builder.add_edge(name, END)
    builder.add_conditional_edges(START, chosen, [LEARNS, SETTLED])
    return Trainable(
        name="two policies",
        graph=builder.compile(),
        nodes={name: [name] for name in (LEARNS, SETTLED)},
        tasks=lambda split, number: [Task(id=f"{split}{n}", question=f"How many? {n}", gold="") for n in range(number)],
        inputs=lambda task: {"messages": [("user", task.question)]},
        reward=lambda task, state: float(len(state["messages"][-1].text) % 2) if _odd(task.question) else 0.5,
    )


def _odd(question: str) -> bool:
    return int(question.rpartition(" ")[2]) % 2 == 1
