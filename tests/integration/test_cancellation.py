"""A run that is cancelled leaves no process at work, and of its thread a whole number of turns.

The program that is under way when a run is cancelled is a real one, in the real sandbox.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

import agentflow
from agentflow.graph.agent import Agent, build_graph
from agentflow.graph.as_tool import build_tool
from agentflow.graph.context import Context
from agentflow.graph.conversation import exchanged
from agentflow.graph.state import State, Turn
from agentflow.tools.sandbox import execute
from tests.patient import PatientLimits
from tests.sandboxes import descendants, new_processes
from tests.scripted import CONTINUE, STOP, THREAD, Scripted, question
from tests.waiting import LAST_RESORT, until, until_async

PLAN = "Sub-Goal: compute\nTool: python_coder\nContext: none"
FIRST = question("First?")
QUICK, ENDLESS = json.dumps({"code": "print(6 * 7)"}), json.dumps({"code": "while True: pass"})


@pytest.fixture(autouse=True)
def sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starts the fork server, so that what is counted later are programs, which do not end by themselves."""
    if problem := execute.unavailable():
        pytest.skip(problem)
    monkeypatch.setattr("agentflow.tools.python_coder.Limits", PatientLimits)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """One quick turn, then one whose program does not end."""
    script = Scripted(planner=PLAN, executor=[QUICK, ENDLESS], verifier=CONTINUE)
    script.install(monkeypatch)
    return script


async def cancelled_in_the_second_turn(run: Awaitable[Any], script: Scripted) -> None:
    """Cancels `run` while the program of its second turn is at work, and waits until nothing of it is left."""
    started = new_processes()
    task = asyncio.ensure_future(run)
    await until_async(lambda: len(script.asked("executor")) == 2 and started())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until_async(lambda: not started())


async def streamed(stream: Any) -> None:
    async for _ in stream:
        pass


def agent(script: Scripted) -> Agent:
    return build_graph(checkpointer=InMemorySaver(), context=Context(model=script.spec))


RUNS: dict[str, Callable[[Agent], Awaitable[Any]]] = {
    "ainvoke": lambda graph: graph.ainvoke(FIRST, THREAD),
    "astream": lambda graph: streamed(graph.astream(FIRST, THREAD, stream_mode=["updates", "custom", "messages"])),
    "abatch": lambda graph: graph.abatch([FIRST], THREAD),
    "saved at each step": lambda graph: graph.ainvoke(FIRST, THREAD, durability="sync"),
    "saved at exit": lambda graph: graph.ainvoke(FIRST, THREAD, durability="exit"),
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
async def test_a_cancelled_run(run: Callable[[Agent], Awaitable[Any]], script: Scripted) -> None:
    graph = agent(script)
    await cancelled_in_the_second_turn(run(graph), script)
    snapshot = await graph.aget_state(THREAD)
    state = State.model_validate(snapshot.values)
    assert [turn.turn for turn in state.memory] == [1]
    assert (state.memory[0].action.result.output, snapshot.next) == ("42", ("executor",))
    await asked_again(graph, script)


async def asked_again(graph: Agent, script: Scripted) -> None:
    """The thread takes another question, and its memory holds that question's turns alone."""
    script.replies.update(executor=QUICK, verifier=STOP)
    found = await graph.ainvoke(question("Second?"), THREAD)
    assert (found["question"], found["status"]) == ("Second?", "answered")
    assert [turn.turn for turn in found["memory"]] == [1]
    assert [message.text for message in exchanged(found["messages"])] == ["First?", "Second?", "hello"]


async def test_a_cancelled_run_can_go_on(script: Scripted) -> None:
    """The interrupted turn is repeated, and its result occurs once."""
    graph = agent(script)
    await cancelled_in_the_second_turn(graph.ainvoke(FIRST, THREAD), script)
    script.replies.update(executor=QUICK, verifier=STOP)
    found = await graph.ainvoke(None, THREAD)
    assert [turn.turn for turn in found["memory"]] == [1, 2]
    assert [turn.action.result.output for turn in found["memory"]] == ["42", "42"]


@pytest.mark.parametrize("module", ["analyst", "planner", "executor", "verifier", "generator"])
async def test_wherever_a_run_is_cancelled(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reached = asyncio.Event()

    async def hang(_: Any) -> str:
        reached.set()
        await asyncio.Event().wait()
        return "never"

    replies = {"planner": PLAN, "executor": QUICK, "verifier": STOP, "generator": "Answer: hello", "analyst": "So."}
    script = Scripted(**{**replies, module: hang})
    script.install(monkeypatch)
    graph = agent(script)
    task = asyncio.create_task(graph.ainvoke(FIRST, THREAD))
    await asyncio.wait_for(reached.wait(), LAST_RESORT)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    values = (await graph.aget_state(THREAD)).values
    assert all(isinstance(turn, Turn) for turn in values.get("memory", []))
    assert len(values.get("memory", [])) == (1 if module == "generator" else 0)
    script.replies[module] = replies[module]
    await asked_again(graph, script)


async def test_a_cancelled_tool_of_another_agent(script: Scripted) -> None:
    asked = build_tool(Context(model=script.spec)).ainvoke({"question": "First?"})
    await cancelled_in_the_second_turn(asked, script)


async def test_what_else_runs_is_left_alone(script: Scripted) -> None:
    """Two runs on one graph: cancelling the one does not touch the other."""
    graph = build_graph(context=Context(model=script.spec))
    script.replies.update(executor=ENDLESS)
    started = new_processes()
    runs = [asyncio.create_task(graph.ainvoke(FIRST)) for _ in range(2)]
    await until_async(lambda: len(started()) == 2)
    runs[0].cancel()
    await until_async(lambda: len(started()) == 1)
    assert not runs[1].done()
    runs[1].cancel()
    await asyncio.gather(*runs, return_exceptions=True)
    await until_async(lambda: not started())


# Ctrl-C

PROGRAM = (Path(__file__).parent / "cases/ctrl_c.py.txt").read_text()
ASKED = "{'messages': [HumanMessage('First?')]}, THREAD"


@pytest.mark.parametrize(
    ("run", "number"),
    [
        (f"graph.invoke({ASKED})", signal.SIGINT),
        (f"list(graph.stream({ASKED}, stream_mode='updates'))", signal.SIGTERM),
    ],
    ids=["invoke", "stream"],
)
def test_ctrl_c(run: str, number: signal.Signals) -> None:
    """While a program is at work; the handlers are Python's own, whatever the shell below makes of SIGINT."""
    home = str(Path(agentflow.__file__).parents[1])
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", PROGRAM.replace("{run}", run)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=home,
        env={**os.environ, "PYTHONPATH": home},
    ) as process:  # fmt: skip
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        servers = descendants(process.pid)
        process.stdin.write("\n")
        process.stdin.flush()
        assert [process.stdout.readline() for _ in range(2)] == ["program 1\n", "program 2\n"]
        until(lambda: descendants(process.pid) > servers)
        process.send_signal(number)
        until(lambda: descendants(process.pid) == servers)
        assert process.stdout.readline() == "['42']\n"
        _, errors = process.communicate("\n", LAST_RESORT)
        assert (process.returncode, errors) == (0, "")
        assert not descendants(process.pid)
