"""One task through a trainable graph: what was sampled on the way, the reward, and how it ended.

Whatever goes wrong is the rollout's status: an endpoint that is down, a judge that cannot tell, a tool that hangs or a
fault in the graph must not be learnt from as if the policy had been wrong. What the policy itself broke is learnt from,
with reward 0 (`flow.count_as_zero`).
"""

import inspect
import math
import re
import reprlib
import sysconfig
import time
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Self, SupportsFloat
from uuid import uuid4

from langchain_core.runnables import RunnableConfig, RunnableSequence
from langchain_core.runnables.config import merge_configs, run_in_executor
from langgraph.pregel import Pregel
from pydantic import BaseModel, Field, field_serializer

import agentflow
from agentflow.graph.run.recorder import Span
from agentflow.graph.run.runner import LimitExceeded, within
from agentflow.graph.run.runner import run as play
from agentflow.graph.run.task import Task
from agentflow.graph.run.trace import Trace
from agentflow.graph.tracing.observer import Observer
from agentflow.graph.tracing.operation import Sink
from agentflow.rl.apps.trainable import Made, Split, Trainable
from agentflow.rl.policy.chat import Generate
from agentflow.rl.policy.policy import PromptTooLong, no_policy, serving
from agentflow.rl.policy.standing_in import stand_in
from agentflow.rl.rollout.calls import Call, TokenCollector
from agentflow.rl.rollout.capture import redirect_openai
from agentflow.rl.rollout.opening import check_inputs, context_of, lacks_input, opened
from agentflow.rl.rollout.replay_log import Answer, ReplayLog, answered, recorded, replaying
from agentflow.tools.coded_error import Cause, CodedError


class RolloutStatus(StrEnum):
    """How a rollout ended. Only OK has a reward of its own."""

    OK = "ok"
    UNDECIDED = "undecided"
    """The reward could not tell right from wrong."""
    BAD_REWARD = "bad_reward"
    """The reward is no number from 0 to 1."""
    ENDPOINT_FAILED = "endpoint_failed"
    """A model, the judge's included, did not answer, or the sandbox failed."""
    TOO_LONG = "too_long"
    """The conversation outgrew what the policy may read."""
    POLICY_FAILED = "policy_failed"
    """The policy broke the graph: by a reply or a call that could not be used, or without an end."""
    TOOL_FAILED = "tool_failed"
    """A tool failed, at a call that it did not refuse."""
    TIMED_OUT = "timed_out"
    CRASHED = "crashed"
    """The graph or the reward raised something else, or called the policy where it cannot be answered."""


ROUNDING = 1e-6
"""How far from its bounds a reward may be: sums of single precision give 1.0000001."""


_DURING = re.compile(r"During task with name '([^']{1,200})'")
"""What LangGraph notes on an exception, in each graph that it passes."""
_LIBRARIES = ("site-packages", "dist-packages", sysconfig.get_path("stdlib"), *agentflow.__path__, "<")


class RewardError(CodedError, ValueError):
    """A reward cannot be trained on; `str()` names the task and the reward."""


@dataclass(frozen=True)
class Rollout:
    """A finished rollout with its tokens. Invariant: `calls` and `faults` have the same length."""

    id: str
    status: RolloutStatus
    reward: float
    """0 to 1; 0.0 unless the status is OK."""
    calls: list[Call]
    """Model calls to train on, with their tokens."""
    faults: list[bool]
    """Whether each call led to a format or tool error, or could not be parsed."""
    trace: Trace
    model_calls: Mapping[str, int] = field(default_factory=dict)
    """Number of model calls at each path, those of nodes that do not learn included."""
    spans: Sequence[Span] = ()
    """The modules and calls, with their times and without their texts."""
    given_up: Sequence[Call] = ()
    """Calls of attempts that were given up for what the policy said; they led to no reward."""

    @property
    def cut_off(self) -> bool:
        """True if a reply of the policy reached its length limit."""
        return any(call.finish_reason == "length" for call in self.calls)


class CallTrace(BaseModel):
    """A model call of a rollout without its tokens, which tokens/ holds for a few groups."""

    node: str
    """Path of the graph node that called."""
    prompt_tokens: int
    sampled_tokens: int
    finish_reason: str
    """"stop", or "length" for a reply that reached its limit."""
    fault: bool
    """True if the call led to a format or tool error."""
    advantage: float | None = None
    """None until the step is credited, and for a rollout that is not trained on."""


class RolloutTrace(Trace):
    """A rollout: a trace with a reward, and the model calls that are trained on; a line of rollouts/*.jsonl."""

    id: str
    """Task and number of the rollout, as in replay/ and tokens/; unique in its step."""
    step: int
    split: Split
    outcome: RolloutStatus
    reward: float
    """0 to 1; 0.0 unless the outcome is OK."""
    calls: list[CallTrace]
    spans: list[Span] = Field(default_factory=list, exclude_if=lambda spans: not spans)
    """The modules and calls of the rollout, with their times and without their texts."""

    @field_serializer("spans")
    def _without_defaults(self, spans: list[Span]) -> list[dict[str, Any]]:
        return [span.model_dump(exclude_defaults=True) for span in spans]

    @classmethod
    def of(cls, rollout: Rollout, step: int, split: Split) -> Self:
        """The record of a rollout."""
        calls = [
            CallTrace(
                node=call.node,
                prompt_tokens=len(call.prompt_ids),
                sampled_tokens=len(call.response_ids),
                finish_reason=call.finish_reason,
                fault=fault,
            )
            for call, fault in zip(rollout.calls, rollout.faults, strict=True)
        ]
        known = {"id": rollout.id, "step": step, "split": split, "outcome": rollout.status}
        known |= {"reward": rollout.reward, "spans": list(rollout.spans)}
        return cls(**{**rollout.trace.own_fields, "calls_made": None}, **known, calls=calls)

    def credited(self, advantages: Sequence[float] | None) -> Self:
        """This record with the advantages of its calls; None for a rollout that is not trained on."""
        if advantages is None:
            return self
        calls = [
            call.model_copy(update={"advantage": advantage})
            for call, advantage in zip(self.calls, advantages, strict=True)
        ]
        return self.model_copy(update={"calls": calls})


STATUSES: dict[Cause, RolloutStatus] = {
    "policy": RolloutStatus.POLICY_FAILED,
    "tool": RolloutStatus.TOOL_FAILED,
    "infrastructure": RolloutStatus.ENDPOINT_FAILED,
    "limit": RolloutStatus.TIMED_OUT,
}
"""The status of a rollout that failed, by the cause; any other has crashed."""

CAUSES: Mapping[RolloutStatus, Cause] = {
    RolloutStatus.TOO_LONG: "policy",
    RolloutStatus.POLICY_FAILED: "policy",
    RolloutStatus.TOOL_FAILED: "tool",
    RolloutStatus.CRASHED: "agent",
    RolloutStatus.TIMED_OUT: "limit",
}
"""The causes of failures by status; the infrastructure's and the reward's are never learnt from."""


def rewarded(status: str, count_as_zero: Collection[Cause]) -> bool:
    """Return whether a rollout of that status has a reward: its own, or 0 for a failure by one of these causes."""
    return status == RolloutStatus.OK or CAUSES.get(RolloutStatus(status)) in count_as_zero


async def run(
    app: Trainable,
    graph: Made,
    task: Task,
    generate: Generate,
    *,
    id: str,
    seconds: float,
    sinks: Sequence[Sink] = (),
) -> Rollout:
    """Run `task` on a copy of `graph`; graph and reward have `seconds` together.

    `generate` answers the policy's calls; with `no_policy` every model answers by itself, and no call is collected.
    `id` names the rollout and its thread, and `sinks` receive every operation of it.
    """
    stand_in()
    redirect_openai()
    trains, collector, start = generate is not no_policy, TokenCollector(id, app.nodes), time.perf_counter()
    observer = Observer(*[collector] * trains, *sinks, raise_error=True)
    config: RunnableConfig = {"metadata": {"rollout": id}, "configurable": {"thread_id": id}}
    trace, reward, faults = Trace(task=task, status="failed"), None, list[bool]()
    with serving(generate, observer, app.nodes) as served:
        try:
            async with opened(graph, resumes=app.answer is not None) as alone:
                given: Any = {"observer": observer, "texts": False, "seconds": seconds}
                given |= _call_of(app, alone, task)
                given["config"] = merge_configs(given.get("config"), config)
                trace = await play(alone, task, **given)
                if trace.failure and lacks_input(alone, given.get("inputs"), trace.failure):
                    trace = trace.model_copy(update={"error": f"{trace.error}, which the task's `inputs` lack"})
            if not trace.failure:
                async with within(seconds, start):
                    told = _faults(app, task, trace.state, len(collector.calls)) if trains else []
                    reward = await decided_reward(app, task, trace)
                    faults = told
        except Exception as error:  # the boundary of a rollout: what a function of the app raises is its failure
            trace = trace.failed_by(error)
        if failure := served.misused or (trace.failure and next(reversed(served.failed.values()), None)):
            trace = trace.failed_by(failure)
        asked = collector.model_calls.total()
        if trace.cause == "limit" and (left := asked - collector.answered):
            trace = trace.failed_by(
                LimitExceeded(f"{trace.error}, and {left} of its {asked} model calls had no answer")
            )
    if trace.failure and (place := place_of(trace.failure)):
        trace = trace.model_copy(update={"error": f"{trace.error} ({place})"})
    calls, unreadable = collector.calls, [call.unreadable for call in collector.calls]
    return Rollout(
        id=id,
        status=status_of(trace, reward),
        reward=0.0 if trace.failure else reward or 0.0,
        calls=calls,
        faults=[any(pair) for pair in zip(faults or unreadable, unreadable, strict=True)],
        trace=trace.model_copy(update={"seconds": round(time.perf_counter() - start, 3)}),
        given_up=collector.given_up,
        model_calls=collector.model_calls,
        spans=trace.calls_made.spans if trace.calls_made else (),
    )


def place_of(error: Exception) -> str:
    """Return the nodes, the outermost first, and the line of the user's code that an exception came from."""
    if isinstance(error, CodedError):  # which says itself what to change
        return ""
    nodes = [found[1] for note in getattr(error, "__notes__", ()) if (found := _DURING.match(note))]
    passed = traceback.extract_tb(error.__traceback__)
    frames = [one for one in passed if not any(library in one.filename for library in _LIBRARIES)]
    said = [f"node {'/'.join(reversed(nodes))}"] if nodes else []
    return ", ".join([*said, *(f"{Path(one.filename).name}:{one.lineno}" for one in frames[-1:])])


def _call_of(app: Trainable, graph: Any, task: Task) -> dict[str, Any]:
    """Arguments of the runner: how the graph is called. Raises AppError."""
    if app.rollout:
        return {"call": partial(app.rollout, graph, task)}
    first = graph.first if isinstance(graph, RunnableSequence) else graph
    inputs, context, config = app.inputs(task), context_of(first, app.context_of(task)), app.config(task)
    check_inputs(first, inputs)
    if not isinstance(graph, Pregel):
        taken = {"context": context} if isinstance(first, Pregel) else {}
        return {"call": partial(graph.ainvoke, inputs, **taken), "config": config}
    decide = partial(_answered, app.answer, task) if app.answer else None
    return {"inputs": inputs, "context": context, "config": config, "decide": decide}


async def _answered(answer: Callable[[Task, Any], Any], task: Task, asked: Any) -> Any:
    found = await run_in_executor(None, answer, task, asked)
    return await found if inspect.isawaitable(found) else found


def status_of(trace: Trace, reward: float | None) -> RolloutStatus:
    """The status of a rollout with this trace and reward."""
    if isinstance(trace.failure, RewardError):
        return RolloutStatus.BAD_REWARD
    if trace.cause:
        too_long = isinstance(trace.failure, PromptTooLong)
        return RolloutStatus.TOO_LONG if too_long else STATUSES.get(trace.cause, RolloutStatus.CRASHED)
    return RolloutStatus.UNDECIDED if reward is None else RolloutStatus.OK


async def run_recorded(
    app: Trainable,
    graph: Made,
    task: Task,
    policy: Callable[[], Generate],
    log: ReplayLog,
    *,
    seconds: float,
    tries: int,
) -> Rollout:
    """Run `task` with the responses recorded in `log`, and record new ones.

    A rollout whose model, judge or sandbox failed is run again, up to `tries` times in all, each with a new `policy()`;
    only requests without a recorded response are made again.
    """
    for number in range(1, tries + 1):
        log.rewind()
        with replaying(log):
            rollout = await run(app, graph, task, recorded(policy()), id=uuid4().hex, seconds=seconds)
        if rollout.status != RolloutStatus.ENDPOINT_FAILED or number == tries:
            break
    return replace(rollout, id=log.rollout)


async def run_again(app: Trainable, graph: Made, task: Task, log: ReplayLog, *, seconds: float) -> Rollout:
    """Run `task` with the responses of a read-only `log` alone."""
    again = await run_recorded(app, graph, task, lambda: no_policy, log, seconds=seconds, tries=1)
    status = RolloutStatus(log.end["status"]) if log.end else again.status
    # A rollout that failed has no recorded response at the point of failure, so its recorded status is used.
    return again if status == RolloutStatus.OK else replace(again, status=status, reward=0.0)


async def decided_reward(app: Trainable, task: Task, trace: Trace) -> float | None:
    """The reward of the final state of `trace`. The response of an asynchronous reward, such as a judge's, is recorded.

    Raises RewardError.
    """
    found = await run_in_executor(None, app.reward, task, trace.state)  # it may block, as the client of a judge does
    if not inspect.isawaitable(found):
        return _checked(found, task)

    async def ask() -> Answer:
        return {"reward": _checked(await found, task)}

    try:
        told = await answered("reward", [task.id, trace.answer], ask)
    finally:
        if inspect.iscoroutine(found):
            found.close()  # where the replay log knew
    return _checked(told["reward"], task)


def _checked(reward: Any, task: Task) -> float | None:
    if reward is None:
        return None
    found = _number(reward)
    if not -ROUNDING <= found <= 1 + ROUNDING:
        raise RewardError(f"the reward of task '{task.id}' is {reprlib.repr(reward)}, which is no number from 0 to 1")
    return min(max(found, 0.0), 1.0)


def _number(value: Any) -> float:
    """A number of any library as a float, without a negative zero; NaN for what is none."""
    try:
        return float(value) + 0.0 if isinstance(value, SupportsFloat) else math.nan
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _faults(app: Trainable, task: Task, state: Any, calls: int) -> list[bool]:
    """The faults of the calls that are trained on, or none. Raises RewardError."""
    found = app.faults(state)
    if len(found) not in (0, calls):
        raise RewardError(f"faults of task '{task.id}' has {len(found)} entries for {calls} calls that are trained on")
    return list(found)
