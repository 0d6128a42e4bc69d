"""Workers of rollouts that die."""

from types import SimpleNamespace

import numpy as np
import pytest
import ray
from verl.utils.tensordict_utils import get_tensordict

from agentflow.rl.trainer import loops
from agentflow.rl.trainer.watch import WorkerDied


def test_a_worker_in_another_process_is_named_and_one_that_cannot_be_started_ends_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def get(answer: object) -> object:
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(loops.ray, "get", get)
    monkeypatch.setattr(loops.FlowLoops, "_go_on", lambda self, worker: None)
    manager = loops.FlowLoops.__new__(loops.FlowLoops)
    manager.agent_loop_workers, manager._processes, manager.restarted = ["a", "b"], {}, []
    for worker, process in (("a", 11), ("b", 12), ("a", 11)):
        manager._compare(worker, process)
    manager._compare("a", ray.exceptions.ActorUnavailableError("starting", None))
    assert manager.restarted == []
    for _ in range(2):
        manager._compare("b", 13)
    [named] = manager.restarted
    assert {"1:", "12", "13"} <= set(named.replace(",", "").split())
    with pytest.raises(WorkerDied, match="worker 1"):
        manager._compare("b", ray.exceptions.RayActorError())


def test_prompts_are_kept_until_their_rollouts_have_ended_whatever_step_begins_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A worker that is restarted gets the unfinished ones of this step and of the next again."""
    given: list[list[str]] = []
    worker = SimpleNamespace(generate_sequences=SimpleNamespace(remote=lambda chunk: given.append(list(chunk["uid"]))))
    statuses = {"a": "running", "b": "finished"}
    listed = {"train": {uid: {"status": status} for uid, status in statuses.items()}}
    monkeypatch.setattr(loops.tq, "kv_list", lambda: listed)
    monkeypatch.setattr(loops.ray, "get", lambda answers: None)
    found = loops.FlowLoops.__new__(loops.FlowLoops)
    found.agent_loop_workers, found._given = [worker], []
    for uids in (["a", "b"], ["c"]):
        listed["train"].update({uid: {"status": statuses.get(uid, "pending")} for uid in uids})
        found.generate_sequences(get_tensordict({"uid": np.array(uids, dtype=object)}))
    given.clear()
    found._go_on(worker)
    assert given == [["a"], ["c"]]
    listed["train"]["a"]["status"] = "finished"
    found.generate_sequences(get_tensordict({"uid": np.array(["d"], dtype=object)}))
    assert [list(chunk["uid"]) for _, chunk in found._given] == [["c"], ["d"]]
