"""A graph whose answers are right if the system message of one node has a certain sentence, on a scripted endpoint.

The tasks ask for a number. The node `answer` adds 7 only if its prompt says so, or if four divides the number. The
reflection model appends that sentence to the prompt of `answer`, and another one to any other prompt.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from langchain_core.messages import SystemMessage
from langgraph.graph import MessagesState

from agentflow.graph.models.loading import load_model
from agentflow.graph.run.runner import Graph
from agentflow.graph.run.task import Task
from agentflow.rl.apps.trainable import Split, Trainable
from tests.fake_openai import Reply
from tests.graphs import chain

SENTENCE = "Add the secret number 7."
REFLECTED = "I provided an assistant"
"""Beginning of what a reflection model is asked."""

PROMPT = "You write the answer."


def script(body: dict[str, Any]) -> Reply:
    """Play the models of AgentFlow, those of the graph, and the one that reflects."""
    system, question = body["messages"][0]["content"], body["messages"][-1]["content"]
    if system.startswith(REFLECTED):
        present = system.split("```")[1].strip()
        return f"```\n{present}\n{SENTENCE if 'You write the' in present else 'Be brief.'}\n```"
    if system.startswith("You are the planner"):
        return "Sub-Goal: answer\nTool: base_generator\nContext: it"
    if system.startswith("You carry out one step"):
        return '{"query": "the question"}'
    if system.startswith("You check"):
        return "Analysis: It is there.\nVerdict: stop"
    if system.startswith("You write the"):
        number = int(re.search(r"number (\d+)", question)[1])  # type: ignore[index]
        return f"Answer: {number + 7}" if SENTENCE in system or number % 4 == 0 else f"Answer: {number}"
    return "It is asked for a number."


def tasks(split: Split, number: int) -> list[Task]:
    first = 0 if split == "train" else 100
    return [Task.of(f"What is the number {first + n}?", str(first + n + 7)) for n in range(number)]


def reward(task: Task, state: dict[str, Any]) -> float:
    return float(state["messages"][-1].text.endswith(f" {task.gold}"))


def graph(base_url: str) -> Graph:
    """Two nodes with fixed prompts, one with a prompt that changes, and one that is never reached."""
    model = load_model(f"openai-compatible:fake-model@{base_url}")

    def look(state: MessagesState) -> dict[str, Any]:
        for _ in model.stream([("system", "You look."), *state["messages"]]):
            pass
        return {}

    async def dated(state: MessagesState) -> dict[str, Any]:
        await model.ainvoke([SystemMessage(f"You see: {state['messages'][0].text}"), *state["messages"]])
        return {}

    async def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke([SystemMessage(PROMPT), *state["messages"]])]}

    return cast(Graph, chain(MessagesState, look=look, dated=dated, answer=answer))


def app(base_url: str, reward: Callable[[Task, Any], float | None] = reward) -> Trainable:
    return Trainable(
        name="prompted",
        graph=graph(base_url),
        nodes=(),
        tasks=tasks,
        inputs=lambda task: {"messages": [("user", task.question)]},
        reward=reward,
    )


def written(folder: Path) -> Path:
    """Write the tasks to a file."""
    path = folder / "tasks.jsonl"
    rows = [{"question": one.question, "answer": one.gold} for one in tasks("train", 40)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path
