"""Rehearsal before training: one rollout without workers, which finds faults of the app within seconds.

The engine is not running yet, so the policy returns a fixed reply. An app may fail on that reply without being faulty,
which is reported as a remark. Faults that do not depend on the reply stop the training: a graph that raises before it
calls the policy, nodes that never call it, an endpoint that is down, or a reward that raises or is not a number from 0
to 1.
"""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from agentflow.graph.run.runner import Graph
from agentflow.graph.run.task import Task
from agentflow.rl.chat import ChatError, ChatRequest, TokenReply
from agentflow.rl.chat_format import ChatFormat
from agentflow.rl.node_paths import all_patterns
from agentflow.rl.rollout import RolloutStatus, Trajectory, run
from agentflow.rl.trainable import AppError, Trainable
from agentflow.tools.coded_error import CodedError

REPLY = "Yes."
SECONDS = 120.0
"""Time limit of the rehearsal; the rollouts of the training have their own limit."""


class AppFailed(CodedError, RuntimeError):
    """A function of the app, not its graph, raised an exception."""


async def rehearse(app: Trainable, graph: Graph, task: Task, known: ChatFormat | None = None) -> str | None:
    """Run `task` once. Return a remark on what could not be rehearsed, or None.

    `known` is the format of the model that is trained; with it, a model without tools is found too.

    Raises:
        AppError: The app cannot be trained as it is, or not with this model.
    """
    asked, refused = 0, list[ChatError]()

    async def stand_in(request: ChatRequest) -> TokenReply:
        nonlocal asked
        asked += 1
        if known and request.tools:
            try:
                _ = known.parser
            except ChatError as error:
                refused.append(error)
        return TokenReply(REPLY, [0], [0], [0.0], "stop")

    ended = await run(naming_errors(app), graph, task, stand_in, id="rehearsal", seconds=SECONDS)
    if refused:
        raise AppError(f"{app.name} calls tools, but {refused[0]}", code="no_tools")
    if problem := _problem(app, ended, asked):
        raise AppError(
            f"{app.name} cannot be trained: task '{task.id}', tried once before the start, {problem}",
            code="rehearsal_failed",
        )
    if ended.status in (RolloutStatus.OK, RolloutStatus.UNDECIDED):
        return None
    return f"a rehearsal with the reply '{REPLY}' for every call of the policy ended early: {ended.trace.error}"


def naming_errors(app: Trainable) -> Trainable:
    """Return the app with functions whose exceptions name them."""
    parts = ("inputs", "context", "faults", "turn_rewards", "reward")
    named: dict[str, Any] = {part: _named(part, getattr(app, part)) for part in parts}
    return replace(app, **named)


def _problem(app: Trainable, ended: Trajectory, asked: int) -> str:
    """Return why no reply of the policy could make this rollout trainable; "" if one could."""
    nodes, error = ", ".join(f"'{node}'" for node in all_patterns(app.nodes)) or "its nodes", ended.trace.error
    if ended.status not in (
        RolloutStatus.OK,
        RolloutStatus.UNDECIDED,
        RolloutStatus.TOO_LONG,
        RolloutStatus.CRASHED,
        RolloutStatus.TIMED_OUT,
    ):
        return f"ended as {ended.status}: {error}"
    if ended.status == RolloutStatus.CRASHED and (not asked or isinstance(ended.trace.failure, AppFailed)):
        return f"raised: {error}"
    if not asked:
        took = f" ({error})" if error else ""
        elsewhere = f"; its model calls are in {_listed(ended.model_calls)}" if ended.model_calls else ""
        return f"never called a model in {nodes}{took}{elsewhere}"
    if not ended.calls and ended.status != RolloutStatus.CRASHED:
        return f"called the policy in {_listed(ended.model_calls)}, which is not among the nodes that learn ({nodes})"
    return ""


def _listed(paths: Iterable[str]) -> str:
    return ", ".join(f"'{path}'" for path in paths)


def _named(part: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function of the app so that its exceptions name it."""

    def failed(error: Exception) -> AppFailed:
        return AppFailed(f"its {part} raised {type(error).__name__}: {error}")

    async def waited_for(result: Any) -> Any:
        try:
            return await result
        except Exception as error:
            raise failed(error) from error

    def called(*arguments: Any) -> Any:
        try:
            result = function(*arguments)
        except Exception as error:
            raise failed(error) from error
        return waited_for(result) if inspect.isawaitable(result) else result

    return called
