import math
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.tools.sandbox import memory
from agentflow.tools.sandbox.turns import SLOTS, Turns, turns

NEVER = threading.Event()
MANY = 1 << 20


@pytest.fixture(autouse=True)
def much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: math.inf)


class Crowd:
    """Threads that take a turn and hold it until they are let go."""

    def __init__(self, number: int, share: int = 1) -> None:
        self.queue, self.share = Turns(), share
        self.came: list[int] = []
        self.go = [threading.Event() for _ in range(number)]
        self.running = threading.Semaphore(0)
        self.threads = [threading.Thread(target=self._take, args=(n,)) for n in range(number)]
        for waiting, thread in enumerate(self.threads):
            thread.start()
            while len(self.queue._waiting) + self.queue._running <= waiting:
                NEVER.wait(0.001)

    def _take(self, number: int) -> None:
        with self.queue.turn(self.share, NEVER) as had:
            assert had
            self.came.append(number)
            self.running.release()
            self.go[number].wait()

    def await_running(self, number: int) -> None:
        for _ in range(number):
            assert self.running.acquire()

    def end(self) -> None:
        for event in self.go:
            event.set()
        for thread in self.threads:
            thread.join()


def test_they_come_in_order_and_never_more_than_there_are_slots() -> None:
    crowd = Crowd(SLOTS + 5)
    crowd.await_running(SLOTS)
    assert sorted(crowd.came) == list(range(SLOTS))
    for n in range(5):
        crowd.go[n].set()
        crowd.await_running(1)
        assert crowd.came[-1] == SLOTS + n
        assert crowd.queue._running == SLOTS
    crowd.end()
    assert (crowd.queue._running, crowd.queue._promised, len(crowd.queue._waiting)) == (0, 0, 0)


@pytest.mark.parametrize(("available", "running"), [(10, 3), (0, 1)])
def test_all_together_get_no_more_memory_than_there_is_but_one_always_runs(
    monkeypatch: pytest.MonkeyPatch, available: int, running: int
) -> None:
    monkeypatch.setattr(memory, "available", lambda: available * MANY)
    crowd = Crowd(8, share=3 * MANY)
    crowd.await_running(running)
    assert (crowd.queue._running, crowd.queue._promised) == (running, running * 3 * MANY)
    crowd.end()


def test_who_gives_up_leaves_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 0)
    queue, cancelled = Turns(), threading.Event()
    cancelled.set()
    with queue.turn(1, NEVER):
        with queue.turn(1, cancelled) as had:
            assert not had
        assert (queue._running, len(queue._waiting)) == (1, 0)


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.booleans()), max_size=20))
def test_turns_are_given_back_whatever_happens(takers: list[tuple[int, bool, bool]]) -> None:
    queue = Turns()
    for share, gives_up, fails in takers:
        cancelled = threading.Event()
        if gives_up:
            cancelled.set()
        try:
            with queue.turn(share, cancelled):
                if fails:
                    raise KeyError
        except KeyError:
            assert fails
    assert (queue._running, queue._promised, len(queue._waiting)) == (0, 0, 0)


@pytest.mark.process
def test_a_forked_process_has_turns_of_its_own() -> None:
    """The threads that wait here are not there; and one of them may hold the lock at that moment."""
    with turns().turn(1, NEVER), turns()._lock:
        pid = os.fork()
        if pid == 0:
            with turns().turn(1, NEVER):
                os._exit(turns()._running)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1


def test_what_a_container_leaves(tmp_path: Path) -> None:
    def left(**files: str) -> float:
        for name, content in files.items():
            (tmp_path / f"memory.{name}").write_text(content)
        return memory._of_container(tmp_path, "memory.max", "memory.current", "inactive_file")

    assert left() == left(max="max", current="5") == math.inf
    assert left(max="1000", current="300") == 700
    assert left(stat="anon 1\ninactive_file 50\n") == 750
