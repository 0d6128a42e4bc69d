import asyncio
import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.rl.training_log import TrainingLog
from benchmarks.speed import catalogue, step
from benchmarks.speed.batches import floor, rows
from benchmarks.speed.catalogue import PLAIN, STATE_GRAPH, Contender, NotMeasured, printed
from benchmarks.speed.drive import WrongAnswer, several
from benchmarks.speed.growth import SIZES, exponent, load
from benchmarks.speed.page import write
from benchmarks.speed.processes import cpu_seconds, peak_bytes, resident_bytes
from benchmarks.speed.profiles import package
from benchmarks.speed.results import SpeedResults
from benchmarks.speed.rows import ROWS, cells
from benchmarks.speed.server import PROMPT, REPLY, answer
from benchmarks.speed.traces import tokens, trajectories
from benchmarks.speed.work import ANSWER, Work
from tests.trainings import rollout, write_step


def reply(path: str, **body: object) -> dict:
    seconds, response = answer(path, json.dumps({"model": "none", **body}).encode())
    head, _, text = response.partition(b"\r\n\r\n")
    assert f"Content-Length: {len(text)}".encode() in head
    assert seconds == float(path.split("/")[1]) / 1000
    return json.loads(text)


def test_the_server_calls_a_tool_until_the_last_call() -> None:
    asked = [{"role": "user", "content": "q"}]
    messages = [reply("/0/tools/3/v1/x", messages=asked + [{"role": "assistant"}] * n) for n in range(3)]
    called = [found["choices"][0]["message"].get("tool_calls") for found in messages]
    assert [bool(calls) for calls in called] == [True, True, False]
    assert ANSWER in messages[-1]["choices"][0]["message"]["content"]
    [final] = reply("/5/finish/1/v1/x")["choices"][0]["message"]["tool_calls"]
    assert final["function"]["name"] == "final_answer"


def test_the_server_gives_ids_to_whom_asks_for_them() -> None:
    found = reply("/100/text/1/v1/x", return_token_ids=True)
    [choice] = found["choices"]
    assert (len(found["prompt_token_ids"]), len(choice["token_ids"])) == (PROMPT, REPLY)
    assert len(choice["logprobs"]["content"]) == REPLY
    assert "prompt_token_ids" not in reply("/100/text/1/v1/x")


async def test_a_contender_that_gives_up_is_not_measured() -> None:
    async def gives_up() -> str:
        await asyncio.sleep(0)
        return "I do not know"

    with pytest.raises(WrongAnswer, match="I do not know"):
        await several(gives_up, 3, 2)


async def test_so_many_rollouts_are_run_so_many_at_once() -> None:
    now, most = 0, 0

    async def one() -> str:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1
        return ANSWER

    assert len(await several(one, 10, 4)) == 10
    assert most == 4


def line(name: str = PLAIN.name, role: str = "ours", measure: str = "turn", repeat: int = 0, at: float = 0) -> dict:
    return {"measure": measure, "name": name, "label": name, "role": role, "repeat": repeat, "at": at}


def results(path: Path) -> SpeedResults:
    return SpeedResults(path / "results.jsonl", repeats=3, small=True, show=lambda _: None)


def test_what_is_there_is_not_measured_again(tmp_path: Path) -> None:
    def broken() -> dict:
        raise NotMeasured("it is not here")

    first = results(tmp_path)
    for repeat, cost in enumerate((5.0, 1.0, 2.0)):
        first.once(lambda cost=cost: {"values": {"turn": cost}}, **line(repeat=repeat))
    first.once(broken, **line("autogen_agent", "peer"))
    with (tmp_path / "results.jsonl").open("a") as file:
        file.write('{"measure": "torn')
    again = results(tmp_path)
    again.once(broken, **line(repeat=0))
    assert again.median("turn", PLAIN.name, "turn") == 2.0
    assert [found.error for found in again.of("turn", "autogen_agent")] == ["it is not here"]


def test_a_contender_that_failed_is_tried_again(tmp_path: Path) -> None:
    def broken() -> dict:
        raise NotMeasured("it is not here")

    one = results(tmp_path)
    one.once(broken, **line())
    one.once(lambda: {"values": {"turn": 1.0}}, **line())
    assert one.median("turn", PLAIN.name, "turn") == 1.0


def test_the_table_has_the_best_peer_and_what_is_reached(tmp_path: Path) -> None:
    one = results(tmp_path)
    for name, role, cost in ((PLAIN.name, "ours", 1.4), ("a", "peer", 7.0), ("b", "peer", 4.2)):
        one.once(lambda cost=cost: {"values": {"turn": cost}}, **line(name, role))
    one.once(lambda: {"values": {"turn": 1.0}}, **line(STATE_GRAPH.name, "floor"))
    assert next(cells(one)) == (ROWS[0].title, "4.2 ms (b)", "1 ms", "1.4 ms", "3.0", "<= 1.5 ms", "yes")


def test_every_row_can_be_read_before_anything_is_measured(tmp_path: Path) -> None:
    assert {row[3] for row in cells(results(tmp_path))} == {"not measured"}


@given(st.floats(0.1, 3), st.floats(0.1, 100))
def test_the_exponent_is_that_of_the_growth(power: float, cost: float) -> None:
    one = SpeedResults(Path("/dev/null"), 1, True, lambda _: None)
    for size in SIZES["turns"]:
        one.once(lambda size=size: {"values": {"cpu": cost * size**power}}, **line(measure="growth:turns", at=size))
    assert exponent(one, "turns", PLAIN.name) == pytest.approx(power)
    assert exponent(one, "tools", PLAIN.name) is None


def test_only_what_grows_grows() -> None:
    work = Work("http://127.0.0.1:1", rollouts=50)
    one, many = (load("tools", size, PLAIN)(work) for size in (1, 50))
    assert (one.calls, one.memory, one.names) == (many.calls, many.memory, ["look_up"])
    assert len(many.names) == 50
    assert len(load("memory", 200, PLAIN)(work).result) == 40_000


def test_the_page_names_who_was_not_measured(tmp_path: Path) -> None:
    def broken() -> dict:
        raise NotMeasured("its trainer is not on PyPI")

    one = results(tmp_path)
    one.once(lambda: {"values": {"turn": 1.0, "call": 1.0}, "profile": {"langgraph": 0.25}}, **line())
    one.once(broken, **line("rllm", "peer", "batch"))
    one.once(lambda: {"values": {"cpu": 2.0}}, **line(measure="growth:turns", at=1))
    page = write(tmp_path, one).read_text()
    assert "- batch, rllm: its trainer is not on PyPI" in page
    assert "langgraph 25%" in page
    assert (tmp_path / "figures" / "growth-turns.svg").exists()


def test_time_goes_to_the_package_of_a_file() -> None:
    files = {
        "/v/lib/python3.11/site-packages/httpx/_client.py": "httpx",
        "/v/lib/python3.11/site-packages/typing_extensions.py": "typing_extensions",
        "/usr/lib/python3.11/asyncio/tasks.py": "Python: asyncio",
        "/usr/lib/python3.11/graphlib.py": "Python: graphlib",
        "/home/me/agentflow/rl/policy.py": "agentflow",
        "/home/me/benchmarks/speed/drive.py": "the benchmark's client",
    }
    assert {file: package(file) for file in files} == files


@pytest.mark.process
def test_a_program_that_fails_is_one_line() -> None:
    with pytest.raises(NotMeasured, match=r"^ValueError: no$"):
        printed(sys.executable, ["-c", "raise ValueError('no')"])


def test_a_peer_that_pip_could_not_install_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "VENVS", tmp_path)
    peer = Contender("smolagents_agent", "smolagents", "peer", "smolagents")
    with pytest.raises(NotMeasured, match="make bench installs it"):
        peer.driven(Work("http://127.0.0.1:1"))
    (tmp_path / "smolagents.log").write_text("…\nERROR: No matching distribution\n")
    with pytest.raises(NotMeasured, match="ERROR: No matching distribution"):
        peer.driven(Work("http://127.0.0.1:1"))


def test_append_only_traces_extend_each_other_and_others_do_not() -> None:
    for append_only in (True, False):
        for calls in trajectories(append_only, 4):
            for before, after in pairwise(calls):
                known = [*before.prompt, *before.reply]
                assert (after.prompt[: len(known)] == known) is append_only


@pytest.mark.parametrize("append_only", [True, False])
def test_ours_and_the_floor_compute_the_same_tokens(append_only: bool) -> None:
    traces = trajectories(append_only, 4)
    assert rows(traces)() == floor(traces)()
    computed = rows(traces)().forward
    assert computed < tokens(traces) if append_only else computed == tokens(traces)


def test_a_step_is_read_off_a_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    TrainingLog(tmp_path).rewind(0)  # makes the folder
    write_step(tmp_path, 1, [rollout(1, "train", "a", 1.0)])
    path = tmp_path / "metrics.jsonl"
    found = json.loads(path.read_text()) | {"forward_tokens": 1000, "rows": 4, "rows_trained": 2}
    path.write_text(json.dumps(found | {"seconds/rollouts": 1.0, "seconds/step": 3.0}) + "\n")
    monkeypatch.setattr(step, "printed", lambda *_: {"forward": 2000.0, "backward": 1000.0})
    one = results(tmp_path / "out")
    step.measure(one, tmp_path)
    assert one.median("step", "step", "ratio") == pytest.approx(3.0 / (1.0 + 0.5 + 0.5))
    nothing = results(tmp_path / "nothing")
    step.measure(nothing, tmp_path / "empty")
    assert "has no step of a training" in nothing.of("step")[0].error
    assert np.isfinite(one.median("step", "step", "seconds") or 0)


linux = pytest.mark.skipif(sys.platform != "linux", reason="resource use is read from Linux's /proc")


@pytest.mark.process
@linux
def test_the_memory_of_children_of_children_counts() -> None:
    held = "kept = b'x' * (256 << 20); print(flush=True); input()"
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {held!r}])"
    before = resident_bytes()
    with subprocess.Popen([sys.executable, "-c", nested], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout
        child.stdout.readline()
        assert resident_bytes() - before > 128 << 20  # what earlier tests had started may have ended meanwhile
        child.communicate(b"\n")


@pytest.mark.process
@linux
def test_threads_and_processes_that_end_meanwhile_do_not_disturb_a_measurement() -> None:
    """A thread that ended while its children were read failed the whole measurement."""
    ended = threading.Event()

    def start_threads() -> None:
        while not ended.is_set():
            thread = threading.Thread(target=int)
            thread.start()
            thread.join()

    def start_processes() -> None:
        while not ended.is_set():
            subprocess.run(["true"], check=True)

    with ThreadPoolExecutor(2) as pool:
        disturbing = [pool.submit(start_threads), pool.submit(start_processes)]
        try:
            for _ in range(20):
                assert min(peak_bytes(), cpu_seconds()) > 0
        finally:
            ended.set()
    assert not [error for future in disturbing if (error := future.exception())]
