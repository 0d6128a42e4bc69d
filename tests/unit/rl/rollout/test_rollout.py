import asyncio
import json
import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import Context
from decimal import Decimal
from typing import Any, TypedDict

import numpy as np
import pytest
from langgraph.graph import StateGraph
from langgraph.types import interrupt

from agentflow.graph.models.spec import ModelError
from agentflow.graph.run.task import Task
from agentflow.graph.run.trace import to_line
from agentflow.rl.apps.loading import load_app
from agentflow.rl.apps.trainable import AppError, Trainable
from agentflow.rl.policy.chat import ChatRequest, TokenReply
from agentflow.rl.policy.policy import Policy
from agentflow.rl.rollout.replay_log import Entry, ReplayLog
from agentflow.rl.rollout.rollout import RolloutStatus, RolloutTrace, run_recorded
from agentflow.tools import python_coder as tool_module
from agentflow.tools.python_coder import python_coder
from agentflow.tools.run import run_tool
from agentflow.tools.sandbox.limits import Outcome, SandboxError
from tests.failing import fails
from tests.graphs import TASK, Server, chain, rollout, trainable
from tests.waiting import LAST_RESORT


class Sum(TypedDict):
    question: str
    answer: str


async def asks(state: Sum) -> dict[str, str]:
    return {"answer": str((await Policy().ainvoke(state["question"])).text)}


def app(node: Any = asks, **changes: Any) -> Trainable:
    """An app whose only node is `node`."""
    return trainable(**({"graph": chain(Sum, answer=node), "nodes": ("answer",)} | changes))


async def test_a_rollout_that_ends_has_a_reward_and_its_calls_and_their_times_without_texts() -> None:
    trajectory = await rollout(app())
    assert (trajectory.status, trajectory.reward) == (RolloutStatus.OK, 1.0)
    assert [call.response_ids.tolist() for call in trajectory.calls] == [[2]]
    record = RolloutTrace.of(trajectory, 4, "train")
    [called] = record.calls
    assert (record.step, called.node, called.prompt_tokens, called.sampled_tokens) == (4, "answer", 1, 1)
    module, call = record.spans
    assert (module.kind, module.name) == ("module", "answer")
    assert (call.kind, call.module, call.parent) == ("model_call", "answer", 0)
    assert (call.input_tokens, call.output_tokens, call.prompt, call.replies) == (1, 1, [], [])
    assert 0 <= module.start <= call.start <= call.start + call.seconds <= module.start + module.seconds + 1e-3
    line = to_line(record)
    assert "prompt" not in json.loads(line)["spans"][1]
    assert RolloutTrace.model_validate_json(line).spans == record.spans


@pytest.mark.parametrize(("hangs", "calls"), [("tool", 0), ("policy", 0), ("reward", 1)])
async def test_what_hangs_ends_its_rollout(hangs: str, calls: int) -> None:
    """A blocking call cannot be taken back from its thread, but nobody waits for it any more.

    A reward, which may ask a judge by a blocking client, held the event loop, and so all rollouts.
    """
    released = threading.Event()

    def blocked(*_: Any) -> dict[str, str]:
        released.wait(LAST_RESORT)
        return {}

    async def policy(request: ChatRequest) -> TokenReply:
        await asyncio.Event().wait()
        raise AssertionError

    try:
        hanging = {"tool": app(blocked), "policy": app(), "reward": app(reward=blocked)}[hangs]
        trajectory = await rollout(hanging, policy if hangs == "policy" else None, seconds=0.3)
    finally:
        released.set()
    assert (trajectory.status, trajectory.reward, len(trajectory.calls)) == (RolloutStatus.TIMED_OUT, 0.0, calls)
    assert "0.3 s" in trajectory.trace.error


async def test_the_answer_to_an_interrupt_may_block() -> None:
    """It is awaited from a thread, so that a client or a person who does not answer holds no other rollout."""

    def blocks(task: Task, asked: str) -> str:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        return task.gold

    def asking(state: Sum) -> dict[str, str]:
        return {"answer": interrupt(state["question"])}

    trajectory = await rollout(app(asking, answer=blocks))
    assert (trajectory.status, trajectory.reward) == (RolloutStatus.OK, 1.0), trajectory.trace.error


@pytest.mark.parametrize("part", ["node", "reward"])
async def test_code_that_exits_ends_its_rollout_alone(part: str) -> None:
    """It ended the whole command in silence, with exit code 0; models write `exit()` for tools that run Python."""

    def leaves(*_: Any) -> Any:
        raise SystemExit

    trajectory = await rollout(app(leaves) if part == "node" else app(reward=leaves))
    assert trajectory.status == RolloutStatus.CRASHED
    assert "exit(None)" in trajectory.trace.error
    assert "test_rollout.py" in trajectory.trace.error


def _raises(error: Exception) -> Any:
    def reward(task: Task, state: Sum) -> float:
        raise error

    return reward


@pytest.mark.parametrize(
    ("reward", "status", "reason"),
    [
        (lambda task, state: None, RolloutStatus.UNDECIDED, ""),
        (_raises(ModelError("the judge is down")), RolloutStatus.ENDPOINT_FAILED, "the judge is down"),
        (_raises(SandboxError("the fork server ended")), RolloutStatus.ENDPOINT_FAILED, "the fork server ended"),
        (_raises(KeyError("x")), RolloutStatus.CRASHED, "KeyError: 'x'"),
    ],
)
async def test_an_undecided_reward_is_a_status_and_not_a_zero(reward: Any, status: RolloutStatus, reason: str) -> None:
    """The reference trained on a judge's failure as if the answer had been wrong (its bug T8).

    Agent-lightning takes a missing reward for 0 (`reward_fillna_value`).
    """
    trajectory = await rollout(app(reward=reward))
    assert (trajectory.status, trajectory.trace.error.partition(" (")[0]) == (status, reason)
    assert len(trajectory.calls) == 1


async def test_a_sandbox_that_fails_is_tried_again_and_never_the_policys_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = 0

    async def fails_once(*_: Any) -> Outcome:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise SandboxError("the sandbox's fork server ended while the code ran")
        return Outcome("2", "", 0)

    async def computes(state: Sum) -> dict[str, str]:
        await Policy().ainvoke(state["question"])
        return {"answer": (await run_tool(python_coder(), {"code": "print(2)"}, 3600)).output}

    monkeypatch.setattr(tool_module, "execute", fails_once)
    computing = app(computes)
    masked = await rollout(computing)
    assert (masked.status, masked.reward, masked.faults) == (RolloutStatus.ENDPOINT_FAILED, 0.0, [False])
    tries, kept = 0, list[Entry]()
    log, graph = ReplayLog("r", keep=kept.append), computing.built()
    again = await run_recorded(computing, graph, TASK, lambda: Server(), log, seconds=LAST_RESORT, tries=2)
    assert (again.status, again.reward, tries) == (RolloutStatus.OK, 1.0, 2)
    assert [told.kind for told in kept] == ["policy", "tool"]


def rewarding(value: Any, awaited: bool) -> Any:
    async def later(task: Task, state: Sum) -> Any:
        await asyncio.sleep(0)
        return value

    return later if awaited else lambda task, state: value


WRONG: list[Any] = [math.nan, math.inf, -math.inf, 37, -0.001, 1.001, "1", "high", [1.0], 1j, 10**400, object()]


@pytest.mark.parametrize(
    "wrong",
    [
        *({"reward": rewarding(value, awaited)} for value in WRONG for awaited in (False, True)),
        *({"faults": lambda state, faults=faults: faults} for faults in ([True, False], [True] * 5)),
    ],
)
async def test_figures_out_of_range_and_lists_of_another_length_are_refused_with_their_task(wrong: Any) -> None:
    """NaN poisoned its group, and 37 was taken."""
    trajectory = await rollout(app(**wrong))
    assert (trajectory.status, trajectory.reward) == (RolloutStatus.BAD_REWARD, 0.0)
    assert f"task '{TASK.id}'" in trajectory.trace.error


GOOD = [0, 1, 0.25, True, np.float32(0.5), np.int64(1), Decimal("0.5"), -0.0]


@pytest.mark.parametrize(("good", "reward"), [*((one, float(one)) for one in GOOD), (1.0000001, 1.0), (-1e-7, 0.0)])
@pytest.mark.parametrize("awaited", [False, True])
async def test_a_number_of_any_library_is_a_reward_and_rounding_takes_none_out_of_its_bounds(
    good: Any, reward: float, awaited: bool
) -> None:
    trajectory = await rollout(app(reward=rewarding(good, awaited)))
    assert (trajectory.status, trajectory.reward) == (RolloutStatus.OK, reward)


# Where a node calls the policy from


def invoked(question: str) -> str:
    return str(Policy(fallback="openai:never-asked").invoke(question).text)


def by_thread(question: str) -> str:
    answers: list[str] = []
    thread = threading.Thread(target=lambda: answers.append(invoked(question)))
    thread.start()
    thread.join()
    return answers[0]


def by_pool(question: str) -> str:
    with ThreadPoolExecutor(2) as pool:
        return pool.submit(invoked, question).result()


LASTING_POOL = ThreadPoolExecutor(1)


def blocking(way: Callable[[str], str]) -> Any:
    return lambda state: {"answer": way(state["question"])}


def awaiting(way: Callable[[str], Any]) -> Any:
    async def node(state: Sum) -> dict[str, str]:
        return {"answer": await way(state["question"])}

    return node


WAYS = [
    blocking(by_thread),
    blocking(by_pool),
    blocking(lambda question: LASTING_POOL.submit(invoked, question).result()),
    blocking(lambda question: str(Policy().batch([question])[0].text)),
    blocking(lambda question: str(asyncio.run(Policy().ainvoke(question)).text)),
    awaiting(lambda question: asyncio.to_thread(invoked, question)),
    awaiting(lambda question: asyncio.get_running_loop().run_in_executor(None, invoked, question)),
]


@pytest.mark.parametrize("node", WAYS)
async def test_calls_from_threads_of_a_node_belong_to_its_rollout(node: Any) -> None:
    """They lost the context and went to the fallback, and the rollout counted as ok."""
    trained, names = app(node), [f"r{n}" for n in range(8)]
    ended = await asyncio.gather(*(rollout(trained, Server(name)) for name in names))
    assert [(one.status, one.trace.answer) for one in ended] == [(RolloutStatus.OK, name) for name in names]


def outside(state: Sum) -> dict[str, str]:
    """Calls where no rollout is known, and passes the error over."""
    with suppress(RuntimeError):
        Context().run(invoked, state["question"])
    return {"answer": "2"}


async def invokes(state: Sum) -> dict[str, str]:
    return {"answer": invoked(state["question"])}


async def joins(state: Sum) -> dict[str, str]:
    return {"answer": by_thread(state["question"])}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize(("node", "named"), [(invokes, "ainvoke"), (joins, "to_thread"), (outside, "thread")])
async def test_a_call_that_cannot_be_served_ends_the_rollout(
    node: Any, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first held the event loop for ever, and no timeout fired; the last was paid for."""
    if node is joins:
        monkeypatch.setattr("agentflow.rl.policy.policy.PATIENCE", 0.2)
    trajectory = await rollout(app(node))
    assert trajectory.status == RolloutStatus.CRASHED
    assert named in trajectory.trace.error


@pytest.mark.parametrize(
    ("name", "options", "code", "named"),
    [
        ("nowhere:app", {}, "not_loaded", "nowhere"),
        ("json:nothing", {}, "not_loaded", "nothing"),
        ("json:dumps", {"obj": 1}, "no_app", "str"),
        ("fractions:Fraction", {"numerator": "x"}, "not_loaded", "ValueError"),
        ("fractions:Fraction", {"numerator": []}, "not_loaded", "TypeError"),
        ("agentflow.rl.apps.planner:atlas", {"turns": 3}, "unknown_options", "turns"),
        ("examples.help_desk:app", {"turns": 3}, "unknown_options", "turns"),
    ],
)
def test_names_that_are_no_app(name: str, options: dict[str, Any], code: str, named: str) -> None:
    with fails(AppError, code, name.partition(":")[0], named):
        load_app(name, **options)


def test_a_graph_that_cannot_be_compiled_is_no_app() -> None:
    with fails(AppError, "not_loaded", "entrypoint"):
        app(graph=lambda: StateGraph(Sum)).built()
