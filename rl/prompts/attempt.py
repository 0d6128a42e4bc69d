"""One task through an app with other prompts: its reward, why it failed, and the model calls of each node."""

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import uuid4

from langchain_core.runnables import RunnableConfig

from agentflow.graph.run.meter import Meter
from agentflow.graph.run.task import Task
from agentflow.graph.run.trace import Trace
from agentflow.graph.tracing.observer import Observer
from agentflow.graph.tracing.operation import Operation
from agentflow.rl.prompts.targets import Target, Texts
from agentflow.rl.rollout import RolloutStatus, broken_by, decided_reward
from agentflow.rl.trainable import Graph, Trainable
from agentflow.tools.redaction import redacted


@dataclass(frozen=True)
class NodeCall:
    """A model call of a node."""

    node: str
    """Path of the node."""
    system: str
    """Its system message; "" without one."""
    prompt: str
    """The other messages, each after its role."""
    reply: str
    """The reply with its tool calls, or the error of a failed call."""


class CallLog:
    """Sink that collects the model calls of a rollout by node, without those of tools."""

    def __init__(self) -> None:
        self._ended: list[tuple[Operation, NodeCall]] = []

    def begin(self, operation: Operation) -> None:
        """Do nothing."""

    def end(self, operation: Operation) -> None:
        """Take a call."""
        if operation.kind == "model_call" and operation.path and operation.module == operation.path[-1]:
            self._ended.append((operation, _call(operation)))

    @property
    def calls(self) -> list[NodeCall]:
        """The calls in the order in which they ended, those of attempts that were given up aside."""
        return [call for operation, call in self._ended if not operation.given_up]


def _call(operation: Operation) -> NodeCall:
    said = [
        (message["role"], message["parts"][0]["content"]) for message in operation.content["gen_ai.input.messages"]()
    ]
    system = said[0][1] if said and said[0][0] == "system" else ""
    prompt = "\n\n".join(f"{role}: {text}" for role, text in said[bool(system) :])
    replies = [
        "\n".join([str(reply.text), *(json.dumps({call["name"]: call["args"]}) for call in reply.tool_calls)])
        for reply in operation.replies
    ]
    reply = "\n".join(replies) if not operation.error else f"({operation.error}: {operation.message})"
    return NodeCall("/".join(operation.path), system, prompt, reply.strip())


@dataclass(frozen=True)
class Attempt:
    """A finished rollout."""

    status: RolloutStatus
    reward: float
    """0 to 1; 0.0 unless the status is OK."""
    trace: Trace
    """Its `error` names the reason of any other status."""
    calls: Sequence[NodeCall] = ()
    failure: Exception | None = field(default=None, compare=False)
    """The exception that ended the rollout."""


async def attempt(app: Trainable, graph: Graph, task: Task, target: Target, texts: Texts, *, seconds: float) -> Attempt:
    """Run `task` with the prompts `texts`; graph and reward have `seconds` together."""
    log, meter, start = CallLog(), Meter(), time.perf_counter()
    observer, limit, id = Observer(log, meter), asyncio.timeout(seconds), uuid4().hex
    config: RunnableConfig = {
        "callbacks": [observer],
        "metadata": {"rollout": id},
        "configurable": {"thread_id": id},
    }
    status, reward, failure = RolloutStatus.OK, 0.0, None
    try:
        with target.applied(texts, observer) as context:
            async with limit:
                state = await graph.ainvoke(app.inputs(task), config, context=context)
                trace = app.trace(task, state)
                decided = await decided_reward(app, task, state, trace)
        if decided is None:
            status, trace = RolloutStatus.UNDECIDED, trace.model_copy(update={"error": "the reward is None"})
        reward = decided or 0.0
    except Exception as error:  # the boundary of a rollout: whatever a foreign graph or reward raises is its failure
        timed_out = limit.expired() and isinstance(error, TimeoutError)
        status, reason = broken_by(error, f"{seconds:g} s" if timed_out else "")
        trace, failure = Trace(task=task, status="failed", error=redacted(reason)), error
    taken = {"usage": meter.usage(), "seconds": round(time.perf_counter() - start, 3)}
    return Attempt(status, reward, trace.model_copy(update=taken), log.calls, failure)
