"""Faults that would otherwise be waited for: a process that died, and a call that does not return."""

import os
import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Thread
from typing import Any, TypeVar

import ray
from ray.core.generated.common_pb2 import ActorDeathCause, ActorDiedErrorContext

Result = TypeVar("Result")

ROLES = {
    "FlowRunner": "the trainer",
    "FlowLoopWorker": "a rollout worker",
    "WorkerDict": "a training worker",
    "MicroServer": "the server of the policy",
    "vLLMHttpServer": "the server of the policy",
    "SGLangHttpServer": "the server of the policy",
}
"""Names of actor classes in messages; other classes keep their own."""

LOST = ActorDiedErrorContext.WORKER_DIED, ActorDiedErrorContext.NODE_DIED
"""Reasons of Ray for an actor's end that nobody asked for."""

KILLED = "has died: killed, or out of memory"
UNREACHABLE = "cannot be reached"
MEMORY_FULL = (
    "has died: Ray killed it, since its machine's memory was full; end other programs there, or lower prompt_tokens, "
    "response_tokens and actor_rollout_ref.actor.ppo_max_token_len_per_gpu"
)
"""Not always the process that took the memory."""

_UNAVAILABLE = re.compile(r"actor (?P<id>[0-9a-f]+) is unavailable")
"""The actor's id in the message of Ray's `ActorUnavailableError`."""

ENGINE_SECONDS = 1.0
"""Interval between two checks of a server's engine."""


class WorkerDied(RuntimeError):
    """A process that rollouts depend on has died."""


class SyncFailed(RuntimeError):
    """The rollout servers did not get the weights of a step."""


@dataclass(frozen=True)
class Death:
    """An actor whose process died, or whose machine cannot be reached."""

    role: str
    process: int
    node: str
    """IP address."""
    happened: str
    """One of the three texts above."""

    def __str__(self) -> str:
        return f"{self.role} (process {self.process} on {self.node}) {self.happened}"


def deaths() -> list[Death]:
    """Return the actors of this driver that died and that Ray does not restart, the first one first.

    The answer comes from Ray's own table, so it does not depend on what the trainer is waiting for.
    """
    job = ray.get_runtime_context().get_job_id()
    actors = ray._private.state.actors(actor_state_name="DEAD").values()
    lost = [actor for actor in actors if actor["JobID"] == job and _is_lost(actor["DeathCause"])]
    return [
        _death(actor, MEMORY_FULL if actor["DeathCause"].HasField("oom_context") else KILLED)
        for actor in sorted(lost, key=lambda actor: actor["EndTime"])
    ]


def first_death(error: Exception) -> Death | None:
    """Return the first of `deaths`, or the actor that `error` says is unavailable, or None.

    The connection to another machine may break before Ray's table has the death, and the run's own end then hides it.
    """
    if died := deaths():
        return died[0]
    named = _UNAVAILABLE.search(str(error))
    actor = ray._private.state.actors(named["id"]) if named else None
    return _death(actor, UNREACHABLE) if actor else None


def _death(actor: Mapping[str, Any], happened: str) -> Death:
    name = actor["ActorClassName"]
    return Death(ROLES.get(name, name), actor["Pid"], actor["Address"]["IPAddress"], happened)


def _is_lost(cause: ActorDeathCause) -> bool:
    return cause.HasField("oom_context") or (
        cause.HasField("actor_died_error_context") and cause.actor_died_error_context.reason in LOST
    )


def exit_with_engine(server: Any) -> None:
    """End the process of a rollout server when its engine has died; called in that process.

    vLLM's engine is a process of its own, of which Ray's table knows nothing. Without it, the server refuses every
    request, and a weight sync waits for ever.
    """
    engine: Any = getattr(server, "engine", None)
    if not hasattr(engine, "errored"):
        return

    def watch() -> None:
        while not engine.errored:
            time.sleep(ENGINE_SECONDS)
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def within(seconds: float, call: Callable[[], Result]) -> Result:
    """Return `call()`. Raises TimeoutError if it takes longer than `seconds`; its thread is then abandoned."""
    answer: Future[Result] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:  # raised again where the result is awaited
            answer.set_exception(error)

    Thread(target=run, daemon=True).start()
    return answer.result(seconds)


def cause(error: Exception) -> str:
    """Return the innermost cause of a Ray error, in one line."""
    inner: BaseException = getattr(error, "cause", None) or error
    lines = [line.strip() for line in str(inner).splitlines() if line.strip()]
    if not lines:
        return type(inner).__name__
    return lines[-1] if inner is error else lines[0]  # Ray's own text is a traceback, whose error comes last
