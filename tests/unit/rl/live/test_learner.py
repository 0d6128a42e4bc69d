"""The learner of a server: batches and versions. Trainings are played; `tests/integration` has real ones."""

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

pytest.importorskip("hydra", reason="the extra train is not installed")

from agentflow.graph.context import Context
from agentflow.rl.live.journal import Feedback, ServedAnswer, Traffic
from agentflow.rl.live.learner import Learner, LearningSettings, StageFailed, used_ids
from agentflow.rl.live.versions import Versions
from agentflow.rl.micro.chat_model import SEED
from tests.runs import record, write_run
from tests.waiting import until_async


class Played(Learner):
    """A learner whose trainings end at once."""

    right = (10,)
    """Number of held-out tasks that each version answers, and all later ones."""
    fails = ""

    async def _train(self, number: int, tasks: int) -> None:
        if self.fails:
            raise StageFailed(self.fails)
        self.weights(number).parent.mkdir(exist_ok=True)
        self.weights(number).symlink_to(SEED)

    async def _held_out(self, number: int) -> dict[str, bool]:
        right = self.right[min(number, len(self.right) - 1)]
        return {f"{task}": task < right for task in range(20)}


class Server:
    """What a learner works with."""

    def __init__(self, folder: Path, versions: Versions, traffic: Traffic) -> None:
        self.folder, self.versions, self.traffic = folder, versions, traffic
        context = Context(model="embedded:seed", models={"planner": "embedded:seed"})
        settings = LearningSettings(folder, folder / "held.jsonl", context, SEED, batch=2)
        self.learner = Played(settings, self.traffic, self.versions)
        self._number = 0

    def answer(self, score: float, times: int = 1) -> None:
        for _ in range(times):
            self._number += 1
            id = f"id-{self._number}"
            line = {"question": f"What is {self._number} + 1?", "answer": "9", "status": "answered"}
            self.traffic.add(ServedAnswer(id=id, version=0, **line, turns=1, seconds=0.1))
            self.traffic.score(Feedback(id=id, score=score))

    @property
    def outcomes(self) -> list[tuple[int, str]]:
        return [(one.version, one.outcome) for one in self.versions.decisions]

    @asynccontextmanager
    async def learning(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.learner.run())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


@pytest.fixture
def server(tmp_path: Path, versions: Versions, traffic: Traffic, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setattr("agentflow.rl.live.learner.LOOK_SECONDS", 0.001)
    return Server(tmp_path, versions, traffic)


async def test_confirmed_answers_become_a_version_that_answers(server: Server) -> None:
    server.answer(score=0)
    async with server.learning():
        server.answer(score=1)
        await asyncio.sleep(0.01)
        assert server.outcomes == []
        server.answer(score=1)
        await until_async(lambda: server.outcomes == [(1, "promoted")])
        assert (server.versions.current, server.learner.weights(1).name) == (1, "1")
        planner = server.learner.context(1).model_name_of("planner")
        assert planner == f"embedded:{server.folder / 'versions' / '1'}"
    tasks = (server.folder / "batches/1/tasks/tasks.jsonl").read_text().splitlines()
    assert [json.loads(line)["answer"] for line in tasks] == ["9", "9"]
    assert used_ids(server.folder) >= {"id-1", "id-2", "id-3"}


@pytest.mark.parametrize(
    ("right", "outcomes", "current"),
    [
        ((10, 8), [(1, "rejected")], 0),
        # Compared with the best so far: else each could lose a little.
        ((10, 16, 14), [(1, "promoted"), (2, "rejected")], 1),
    ],
)
async def test_a_version_that_is_worse_on_held_out_tasks_answers_nothing(
    server: Server, right: tuple[int, ...], outcomes: list[tuple[int, str]], current: int
) -> None:
    server.learner.right = right
    async with server.learning():
        for number in range(len(outcomes)):
            server.answer(score=1, times=2)
            await until_async(lambda number=number: len(server.outcomes) > number)
    assert (server.outcomes, server.versions.current) == (outcomes, current)


async def test_a_training_that_fails_is_recorded_and_the_next_batch_is_waited_for(server: Server) -> None:
    server.learner.fails = "nothing can be learnt"
    async with server.learning():
        server.answer(score=1, times=2)
        await until_async(lambda: server.outcomes == [(1, "failed")])
        assert server.versions.decisions[0].reason == "nothing can be learnt"
        server.learner.fails = ""
        server.answer(score=1, times=2)
        await until_async(lambda: server.outcomes[1:] == [(2, "promoted")])


async def test_a_batch_that_was_taken_is_not_taken_again(server: Server) -> None:
    """The server ended after it had written the batch, and before it had made tasks of it."""
    batch = server.folder / "batches" / "1"
    batch.mkdir(parents=True)
    said = [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]
    (batch / "chat.jsonl").write_text(json.dumps({"messages": said, "id": "id-0", "reward": 1, "edit": ""}) + "\n")
    async with server.learning():
        await until_async(lambda: server.outcomes == [(1, "promoted")])
    assert server.versions.decisions[0].tasks == 1


async def test_held_out_tasks_are_evaluated_once_and_again_when_they_have_changed(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluated = []

    async def command(learner: Learner, number: int, *words: str) -> None:
        evaluated.append(number)
        write_run(Path(words[-1]), [record(n, correct=n < 3) for n in range(4)])

    monkeypatch.setattr(Learner, "_command", command)
    tasks = server.folder / "held.jsonl"
    tasks.write_text("{}\n")
    for _ in range(2):
        found = await Learner._held_out(server.learner, 1)
        assert sorted(found.values()) == [False, True, True, True]
    assert evaluated == [1]
    tasks.write_text("{}\n{}\n")
    await Learner._held_out(server.learner, 1)
    assert evaluated == [1, 1]


@pytest.mark.process
async def test_a_command_ends_with_the_server(server: Server) -> None:
    import psutil  # comes with the extra `train`

    log = server.folder / "batches/1/log.txt"
    running = asyncio.create_task(server.learner._command(1, "serve", "--port", "0"))
    await until_async(lambda: log.exists() and "try: " in log.read_text())
    port = int(re.findall(r"http://127\.0\.0\.1:(\d+)", log.read_text())[0])
    socket.create_connection(("127.0.0.1", port)).close()
    alive = [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]
    [command] = [child for child in alive if "serve" in child.cmdline()]
    assert command.nice() == 19, "it has the lowest priority"
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
