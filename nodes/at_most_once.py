"""Calls with side effects: each is made at most once, or reported as uncertain.

A process may be killed at any moment, also during a call, and a run that resumes from its last checkpoint repeats the
interrupted node. For a call with side effects, that could send a second e-mail. So the executor ends its step before
such a call and leaves a mark in the state. The checkpoint that follows is on disk before the call begins
(`durability="sync"`, the default of `build_graph`). The next step makes the call if this process wrote the mark and has
not used it yet. If a process finds another process's mark, it was started after a crash. The call may or may not have
been completed, and the result says so. Only a call that had paused to ask a person is made again, with the answer.

Without a checkpointer no run can be resumed, and there is no mark.
"""

import asyncio
from typing import Any

from langgraph.config import get_config

from agentflow.tools.card import ToolCard
from agentflow.tools.result import ErrorClass, ToolResult


def has_checkpointer() -> bool:
    """Return whether the current run can be resumed later."""
    return bool(get_config()["configurable"].get("__pregel_checkpointer"))


def needs_mark(card: ToolCard) -> bool:
    """Return whether a call of the tool must not be repeated by accident."""
    return card.side_effects and has_checkpointer()


async def was_paused() -> bool:
    """Return whether an attempt of the node ended when it asked a person, so that it did not crash before."""
    run = get_config()["configurable"]
    saved = await _of_saver("get_tuple", _checkpoint(run["checkpoint_ns"].rpartition("|")[0]))
    writes = (saved and saved.pending_writes) or ()
    return any((task, channel) == (run["__pregel_task_id"], "__interrupt__") for task, channel, _ in writes)


async def forget_answer() -> None:
    """Delete the answer that the node has taken from the checkpoint of the graph around its own, if there is one.

    LangGraph keeps it there until that graph's step ends. After a failure, it would answer the next question.
    """
    if "|" in get_config()["configurable"].get("checkpoint_ns", ""):
        nobody = "00000000-0000-0000-0000-000000000000"  # the task of answers that name no question
        await _of_saver("put_writes", _checkpoint(""), [("__resume__", None)], nobody)


def _checkpoint(namespace: str) -> Any:
    """Return the config of the checkpoint from which a graph around the node runs."""
    run = get_config()["configurable"]
    place = {"thread_id": run["thread_id"], "checkpoint_ns": namespace}
    return {"configurable": {**place, "checkpoint_id": run["checkpoint_map"][namespace]}}


async def _of_saver(method: str, *given: Any) -> Any:
    saver = get_config()["configurable"]["__pregel_checkpointer"]
    try:
        return await getattr(saver, f"a{method}")(*given)
    except NotImplementedError:  # of a saver for `invoke` alone
        return await asyncio.to_thread(getattr(saver, method), *given)


def uncertain(tool: str) -> ToolResult:
    """Return the result of a call that was interrupted."""
    problem = f"the run was interrupted when it called {tool}: the call may have been carried out, and was not repeated"
    return ToolResult.failed(ErrorClass.UNCERTAIN, problem)
