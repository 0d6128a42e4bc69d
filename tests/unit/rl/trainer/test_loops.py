"""Workers of rollouts that die."""

import warnings

import pytest

pytest.importorskip("verl")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # verl's imports
    import ray

    from agentflow.rl.trainer import loops
    from agentflow.rl.trainer.watch import WorkerDied


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> loops.FlowLoops:
    """Two workers, which return the given answers."""

    def get(answer: object) -> object:
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(loops.ray, "get", get)
    monkeypatch.setattr(loops.FlowLoops, "_go_on", lambda self, worker: None)
    found = loops.FlowLoops.__new__(loops.FlowLoops)
    found.agent_loop_workers, found._processes, found.restarted = ["a", "b"], {}, []
    for worker, process in (("a", 11), ("b", 12)):
        found._compare(worker, process)
    return found


def test_a_worker_in_another_process_is_named_with_both(manager: loops.FlowLoops) -> None:
    manager._compare("a", 11)
    manager._compare("b", 13)
    manager._compare("b", 13)
    [named] = manager.restarted
    assert {"1:", "12", "13"} <= set(named.replace(",", "").split())


def test_one_that_is_being_started_is_waited_for(manager: loops.FlowLoops) -> None:
    manager._compare("a", ray.exceptions.ActorUnavailableError("starting", None))
    assert manager.restarted == []


def test_one_that_cannot_be_started_ends_the_run(manager: loops.FlowLoops) -> None:
    with pytest.raises(WorkerDied, match="worker 1"):
        manager._compare("b", ray.exceptions.RayActorError())
