"""Graphs of a few nodes, the policy that their models ask, and rollouts of them."""

from typing import Any

from langchain_core.messages import ToolCall
from langgraph.graph import START, StateGraph

from agentflow.graph.run.task import Task
from agentflow.rl.apps.trainable import Trainable
from agentflow.rl.policy.chat import ChatRequest, TokenReply
from agentflow.rl.rollout.rollout import Rollout, run
from tests.waiting import LAST_RESORT

TASK = Task(id="1", question="1 + 1?", gold="2")


def chain(state: Any, /, **nodes: Any) -> Any:
    """A compiled graph of nodes one after the other."""
    builder = StateGraph(state)
    builder.add_sequence(list(nodes.items()))
    builder.add_edge(START, next(iter(nodes)))
    return builder.compile()


def trainable(graph: Any, *nodes: str, **fields: Any) -> Trainable:
    """An app whose only task is `TASK`, and whose reward is whether the answer is the task's."""
    known: dict[str, Any] = {
        "name": "app",
        "nodes": nodes,
        "tasks": lambda split, number: [TASK] * number,
        "inputs": lambda task: {"question": task.question, "answer": ""},
        "reward": lambda task, state: float(state["answer"] == task.gold),
    }
    return Trainable(graph=graph, **(known | fields))


class Server:
    """A policy that replies with `text` or `calls`, or raises `error`; keeps the requests."""

    def __init__(self, text: str = "2", *calls: ToolCall, error: Exception | None = None) -> None:
        self.text, self.calls, self.error = text, calls, error
        self.requests: list[ChatRequest] = []

    async def __call__(self, request: ChatRequest) -> TokenReply:
        self.requests.append(request)
        if self.error:
            raise self.error
        return TokenReply(self.text, [1], [2], [-0.5], "stop", tool_calls=self.calls)


async def rollout(app: Trainable, policy: Any = None, seconds: float = LAST_RESORT, task: Task = TASK) -> Rollout:
    return await run(app, app.built(), task, policy or Server(), id="r", seconds=seconds)
