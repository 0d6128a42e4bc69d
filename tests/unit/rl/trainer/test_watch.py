"""Processes that died, and calls that do not return."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray.core.generated.common_pb2 import ActorDeathCause, ActorDiedErrorContext, OomContext

from agentflow.rl.trainer import watch
from tests.waiting import LAST_RESORT


def actor(name: str, end: int, job: str = "01", **context: Any) -> dict[str, Any]:
    """An entry of Ray's table of dead actors."""
    cause = ActorDeathCause(**{key: value for key, value in context.items() if value is not None})
    return {
        **{"ActorClassName": name, "JobID": job, "EndTime": end, "DeathCause": cause, "Pid": 10 + end},
        "Address": {"IPAddress": "192.0.2.1"},
    }


def died(reason: str) -> dict[str, Any]:
    return {"actor_died_error_context": ActorDiedErrorContext(reason=ActorDiedErrorContext.Reason.Value(reason))}


def test_only_ends_that_nobody_asked_for_are_deaths_and_the_first_is_first(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [
        actor("Third", 3, oom_context=OomContext()),
        actor("SecondNode", 2, **died("NODE_DIED")),
        actor("FlowRunner", 1, **died("WORKER_DIED")),
        *(actor("Ended", 0, **died(reason)) for reason in ("RAY_KILL", "OUT_OF_SCOPE", "REF_DELETED", "OWNER_DIED")),
        actor("OfAnotherJob", 0, "02", **died("WORKER_DIED")),
    ]
    table = SimpleNamespace(actors=lambda actor_state_name: dict(enumerate(found)))
    monkeypatch.setattr(watch.ray._private, "state", table)
    monkeypatch.setattr(watch.ray, "get_runtime_context", lambda: SimpleNamespace(get_job_id=lambda: "01"))
    assert [death.process for death in watch.deaths()] == [11, 12, 13]
    assert [death.role for death in watch.deaths()] == [watch.ROLES["FlowRunner"], "SecondNode", "Third"]
    assert [death.happened for death in watch.deaths()] == [watch.KILLED, watch.KILLED, watch.MEMORY_FULL]
    assert watch.first_death(RuntimeError()) == watch.deaths()[0]


@pytest.mark.parametrize(
    ("error", "named"),
    [
        (ray.exceptions.ActorUnavailableError("connection closed", bytes(16)), True),
        (RuntimeError(f"Traceback ...\nActorUnavailableError: The actor {'0' * 32} is unavailable: closed"), True),
        (ray.exceptions.ActorUnavailableError("connection closed", None), False),
        (RuntimeError("no rollout can be trained on"), False),
    ],
)
def test_an_actor_that_cannot_be_reached_is_named_where_no_death_is_known(
    error: Exception, named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = {"0" * 32: actor("WorkerDict", 1)}
    monkeypatch.setattr(watch, "deaths", list)
    monkeypatch.setattr(watch.ray._private, "state", SimpleNamespace(actors=lambda id: table.get(id, {})))
    found = watch.first_death(error)
    assert found == (watch.Death(watch.ROLES["WorkerDict"], 11, "192.0.2.1", watch.UNREACHABLE) if named else None)


def test_a_call_has_its_time_and_returns_or_raises_what_it_does_in_it() -> None:
    assert watch.within(60, lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        watch.within(60, lambda: 1 / 0)
    never = threading.Event()
    with pytest.raises(TimeoutError):
        watch.within(0.01, never.wait)
    never.set()


def test_a_server_ends_with_its_engine_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    exits, looked = threading.Event(), threading.Event()
    monkeypatch.setattr(watch, "ENGINE_SECONDS", 0.001)
    monkeypatch.setattr(watch.os, "_exit", lambda code: exits.set())

    class Engine:
        dead = False

        @property
        def errored(self) -> bool:
            looked.set()
            return self.dead

    engine = Engine()
    watch.exit_with_engine(SimpleNamespace(engine=engine))
    assert looked.wait(LAST_RESORT)
    assert not exits.is_set()
    engine.dead = True
    assert exits.wait(LAST_RESORT)


def test_a_server_whose_engine_is_no_process_is_left_alone() -> None:
    before = threading.active_count()
    watch.exit_with_engine(SimpleNamespace(engine=object()))
    watch.exit_with_engine(SimpleNamespace())
    assert threading.active_count() == before
