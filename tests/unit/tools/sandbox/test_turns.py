import math
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.tools.sandbox import execute, memory
from agentflow.tools.sandbox.limits import SLOTS
from agentflow.tools.sandbox.turns import Turns

NEVER = threading.Event()
MANY = 1 << 20


@pytest.fixture(autouse=True)
def much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: math.inf)


class Crowd:
    """Threads that take a turn and hold it until they are let go."""

    def __init__(self, number: int, share: int = 1) -> None:
        self.turns, self.share = Turns(), share
        self.go, self.running = threading.Semaphore(0), threading.Semaphore(0)
        self.threads = [threading.Thread(target=self._take) for _ in range(number)]
        for thread in self.threads:
            thread.start()

    def _take(self) -> None:
        with self.turns.turn(self.share, NEVER) as had:
            assert had
            self.running.release()
            self.go.acquire()

    def await_running(self, number: int) -> None:
        for _ in range(number):
            assert self.running.acquire()
        assert self.turns._running == number
        assert not self.running.acquire(blocking=False)

    def end(self) -> None:
        self.go.release(len(self.threads))
        for thread in self.threads:
            thread.join()
        assert (self.turns._running, self.turns._promised) == (0, 0)


def test_never_more_run_than_there_are_slots_and_each_end_lets_another_begin() -> None:
    crowd = Crowd(SLOTS + 5)
    crowd.await_running(SLOTS)
    crowd.go.release(5)
    for _ in range(5):
        assert crowd.running.acquire()
    crowd.end()


@pytest.mark.parametrize(("available", "running"), [(10, 3), (0, 1)])
def test_all_together_get_no_more_memory_than_there_is_but_one_always_runs(
    monkeypatch: pytest.MonkeyPatch, available: int, running: int
) -> None:
    monkeypatch.setattr(memory, "available", lambda: available * MANY)
    crowd = Crowd(8, share=3 * MANY)
    crowd.await_running(running)
    assert crowd.turns._promised == running * 3 * MANY
    crowd.end()


def test_who_gives_up_has_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 0)
    turns, cancelled = Turns(), threading.Event()
    cancelled.set()
    with turns.turn(1, NEVER):
        with turns.turn(1, cancelled) as had:
            assert not had
        assert turns._running == 1


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.booleans()), max_size=20))
def test_turns_are_given_back_whatever_happens(takers: list[tuple[int, bool, bool]]) -> None:
    turns = Turns()
    for share, gives_up, fails in takers:
        cancelled = threading.Event()
        if gives_up:
            cancelled.set()
        try:
            with turns.turn(share, cancelled):
                if fails:
                    raise KeyError
        except KeyError:
            assert fails
    assert (turns._running, turns._promised) == (0, 0)


@pytest.mark.process
def test_a_forked_process_has_turns_of_its_own() -> None:
    """The threads that wait here are not there; and one of them may hold the lock at that moment."""
    turns = execute._sandbox.turns
    with turns.turn(1, NEVER), turns._ended:
        pid = os.fork()
        if pid == 0:
            renewed = execute._sandbox.turns
            with renewed.turn(1, NEVER):
                os._exit(renewed._running)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1


def test_what_a_container_leaves(tmp_path: Path) -> None:
    def left(**files: str) -> float:
        for name, content in files.items():
            (tmp_path / f"memory.{name}").write_text(content)
        return memory._of_container(tmp_path)

    assert left() == left(max="max", current="5") == math.inf
    assert left(max="1000", current="300") == 700
    assert left(stat="anon 1\ninactive_file 50\n") == 750
