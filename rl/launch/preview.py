"""Sample rollouts, which `agentflow try` prints, and the rehearsal of a training.

The rehearsal is one rollout without workers, which finds faults of the app within seconds. The engine is not running
yet, so the policy returns a fixed reply. An app may fail on that reply without being faulty, which is reported as a
remark. Faults that do not depend on the reply stop the training: a graph that raises before it calls the policy, nodes
that never call it, an endpoint that is down, or a reward that raises or is not a number from 0 to 1.
"""

import asyncio
import inspect
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any

from agentflow.graph.run.task import Task
from agentflow.rl.algorithms.signal import Share, groups_with_signal
from agentflow.rl.apps.trainable import AppError, Made, Trainable
from agentflow.rl.policy.chat import ChatError, ChatRequest, Generate, TokenReply
from agentflow.rl.policy.chat_format import ChatFormat
from agentflow.rl.policy.node_paths import Nodes, learns
from agentflow.rl.policy.policy import PromptTooLong
from agentflow.rl.rollout.packing import Reason, TrainingSample, pack
from agentflow.rl.rollout.rollout import Rollout, RolloutStatus, rewarded, run
from agentflow.tools.coded_error import Cause, CodedError


@dataclass
class NodeUse:
    """The model calls at one path."""

    calls: int = 0
    learns: bool = False
    prompt_tokens: int = 0
    sampled_tokens: int = 0
    unreadable: int = 0


@dataclass
class Preview:
    """Rollouts as training would use them."""

    rollouts: list[Rollout] = field(default_factory=list)
    count_as_zero: Collection[Cause] = ()
    """Causes of failures that count as a reward of 0."""
    scripted: bool = False
    """Whether a script played, whose rewards tell nothing of what can be learnt."""

    @property
    def nodes(self) -> dict[str, NodeUse]:
        """Model calls by path; tokens are known of nodes that learn."""
        found: dict[str, NodeUse] = {}
        for rollout in self.rollouts:
            for path, number in rollout.model_calls.items():
                found.setdefault(path, NodeUse()).calls += number
            for call in rollout.calls:
                use = found.setdefault(call.node, NodeUse())
                use.learns = True
                use.prompt_tokens += len(call.prompt_ids)
                use.sampled_tokens += len(call.response_ids)
                use.unreadable += call.unreadable
        return found

    @property
    def statuses(self) -> Counter[RolloutStatus]:
        """Number of rollouts by status."""
        return Counter(rollout.status for rollout in self.rollouts)

    @property
    def counted(self) -> list[Rollout]:
        """The rollouts that have a reward."""
        return [one for one in self.rollouts if rewarded(one.status, self.count_as_zero)]

    @property
    def finished(self) -> list[Rollout]:
        """Those of them that ended by themselves."""
        return [one for one in self.rollouts if one.status == RolloutStatus.OK]

    @property
    def rows(self) -> list[TrainingSample]:
        """Training rows of the rollouts that have a reward, packed without a limit."""
        longest = self.unpacked_tokens
        return [row for one in self.counted for row in pack(one.calls, limit=longest)]

    @property
    def forward_tokens(self) -> int:
        """Tokens that a training step would compute for these rollouts."""
        return sum(len(row.prompt_ids) + len(row.response_ids) for row in self.rows)

    @property
    def unpacked_tokens(self) -> int:
        """Tokens that it would compute if every call were a row."""
        return sum(len(call.prompt_ids) + len(call.response_ids) for one in self.counted for call in one.calls)

    @property
    def breaks(self) -> dict[Reason, tuple[int, int]]:
        """Number of rows that could not continue an earlier one, and the tokens that they compute again, by reason."""
        found: dict[Reason, tuple[int, int]] = {}
        for row in self.rows:
            if row.mismatch:
                rows, tokens = found.get(row.mismatch.reason, (0, 0))
                found[row.mismatch.reason] = rows + 1, tokens + row.mismatch.position
        return found

    @property
    def groups_with_signal(self) -> Share:
        """Number of tasks with several rollouts that count, and of those whose rewards differ."""
        return groups_with_signal((one.trace.task.id, one.reward) for one in self.counted)


async def play(
    app: Trainable,
    graph: Made,
    tasks: Sequence[Task],
    policy: Generate,
    *,
    rollouts: int,
    seconds: float,
    count_as_zero: Collection[Cause] = (),
    at_once: bool = False,
    on_rollout: Callable[[Rollout], None] = lambda rollout: None,
) -> Preview:
    """Play so many rollouts of each task, one by one or at once; `on_rollout` gets each that ended. Raises AppError."""
    named, preview = naming_errors(app), Preview(count_as_zero=count_as_zero)
    turn = asyncio.Semaphore(rollouts if at_once else 1)

    async def played(task: Task, number: int) -> None:
        async with turn:
            found = await run(named, graph, task, policy, id=f"{task.id}/{number}", seconds=seconds)
        failure = found.trace.failure
        if isinstance(failure, AppError) or (isinstance(failure, CodedError) and failure.code == "no_tools"):
            raise AppError(str(failure), code=failure.code) from failure
        preview.rollouts.append(found)
        on_rollout(found)

    for task in tasks:
        await asyncio.gather(*(played(task, number) for number in range(rollouts)))
    return preview


def obstacles(preview: Preview, nodes: Nodes) -> list[str]:
    """Return why nothing can be learnt from these rollouts, each with its remedy; empty if something can."""
    if preview.nodes and not any(learns(path.split("/"), nodes) for path in preview.nodes):
        seen = _listed(preview.nodes)
        return [f"no model call in {_listed(nodes)} was seen; model calls are in {seen}, which --nodes can name"]
    counted = preview.counted
    if not counted:
        errors = Counter(one.trace.error or "its reward is None" for one in preview.rollouts)
        return [f"no rollout can be trained on: {error} ({number} of them)" for error, number in errors.items()]
    if not any(use.learns for use in preview.nodes.values()):
        return ["no reply of the policy was seen; it answers LangChain's chat models and the openai SDK"]
    if not preview.scripted and len(counted) > 1 and len({one.reward for one in counted}) == 1:
        reward = f"{counted[0].reward:g}"
        return [f"every rollout has the reward {reward}; try more tasks, easier or harder ones, or a stronger model"]
    return []


def notes(preview: Preview) -> list[str]:
    """Return what costs much or may fail, each with its remedy."""
    found = []
    if preview.scripted:
        found.append(
            "the script's rewards do not tell what can be learnt; next, --model own plays the agent's own model, with "
            "its key, and --model ollama:qwen2.5:1.5b a small one, after: ollama pull qwen2.5:1.5b"
        )
    if unreadable := sum(use.unreadable for use in preview.nodes.values()):
        found.append(
            f"{unreadable} tool calls could not be read or did not fit their tool; "
            "the model may not know the format of its template"
        )
    if given_up := sum(len(one.given_up) for one in preview.rollouts):
        found.append(f"{given_up} replies were refused and asked for again; training counts them as a try of reward 0")
    for reason, (rows, tokens) in preview.breaks.items():
        share = tokens / preview.forward_tokens
        found.append(
            f"rows that do not continue an earlier one ({reason}): {rows}, in which {tokens:,} tokens are computed "
            f"again ({share:.0%} of all)"
        )
    return found


REPLY = "Yes."
SECONDS = 120.0
"""Time limit of the rehearsal; the rollouts of the training have their own limit."""

CALLS = 100
"""Most calls of the rehearsal: an agent that wants a certain reply asks for it without end."""


class AppFailed(CodedError, RuntimeError):
    """A function of the app, not its graph, raised an exception."""


async def rehearse(app: Trainable, graph: Made, task: Task, known: ChatFormat | None = None) -> str | None:
    """Run `task` once. Return a remark on what could not be rehearsed, or None.

    `known` is the format of the model that is trained; with it, a model without tools is found too.

    Raises AppError if the app cannot be trained as it is, or not with this model.
    """
    asked, refused = 0, list[ChatError]()

    async def stand_in(request: ChatRequest) -> TokenReply:
        nonlocal asked
        asked += 1
        if asked > CALLS:
            raise PromptTooLong(f"it had no end after {CALLS} calls of the policy")
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
    parts = ("inputs", "context", "config", "faults", "reward")
    named: dict[str, Any] = {part: _named(part, getattr(app, part)) for part in parts}
    return replace(app, **named)


def _problem(app: Trainable, ended: Rollout, asked: int) -> str:
    """Return why no reply of the policy could make this rollout trainable; "" if one could."""
    nodes, error = _listed(app.nodes) or "its nodes", ended.trace.error
    if ended.status in (RolloutStatus.ENDPOINT_FAILED, RolloutStatus.BAD_REWARD):
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

    @wraps(function)
    def called(*arguments: Any) -> Any:
        try:
            result = function(*arguments)
        except Exception as error:
            raise failed(error) from error
        return waited_for(result) if inspect.isawaitable(result) else result

    return called
