"""Agents of `create_agent` with LangChain's own middleware."""

from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import (
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    HumanInTheLoopMiddleware,
    LLMToolSelectorMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
    SummarizationMiddleware,
    TodoListMiddleware,
)

from tests.agents.calling import count, look_up
from tests.agents.model import model

MIDDLEWARE: dict[str, Any] = {
    "summarization": lambda: SummarizationMiddleware(model, trigger=("messages", 3), keep=("messages", 2)),
    "fallback": lambda: ModelFallbackMiddleware(model),
    "todo": TodoListMiddleware,
    "retry": lambda: ModelRetryMiddleware(max_retries=1),
    "editing": lambda: ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=1, keep=0)]),
    "selector": lambda: LLMToolSelectorMiddleware(max_tools=1),
    "person": lambda: HumanInTheLoopMiddleware(interrupt_on={"look_up": True}),
}


def agent(middleware: str) -> Any:
    return create_agent(model, [look_up, count], middleware=[MIDDLEWARE[middleware]()])


def approve(task: Any, asked: Any) -> Any:
    return {"decisions": [{"type": "approve"} for _ in asked["action_requests"]]}
