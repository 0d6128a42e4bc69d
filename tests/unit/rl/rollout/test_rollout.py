import asyncio
import json
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import Context
from decimal import Decimal
from typing import Any, TypedDict

import numpy as np
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph

from agentflow.graph.models.spec import ModelError
from agentflow.graph.run.task import Task
from agentflow.graph.run.trace import to_line
from agentflow.rl.apps.loading import load_app
from agentflow.rl.apps.trainable import AppError, Trainable
from agentflow.rl.policy.chat import ChatRequest, TokenReply
from agentflow.rl.policy.policy import Policy
from agentflow.rl.rollout.replay_log import Entry, ReplayLog
from agentflow.rl.rollout.rollout import RolloutRecord, RolloutStatus, Trajectory, run, run_recorded
from agentflow.tools import python_coder as tool_module
from agentflow.tools.python_coder import python_coder
from agentflow.tools.run import run_tool
from agentflow.tools.sandbox.limits import Limits, Outcome, SandboxError
from tests.failing import fails
from tests.waiting import LAST_RESORT


class Sum(TypedDict):
    question: str
    answer: str


def build() -> Any:
    async def answer(state: Sum) -> Sum:
        return {"question": state["question"], "answer": str((await Policy().ainvoke(state["question"])).text)}

    builder = StateGraph(Sum)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    builder.add_edge("answer", END)
    return builder.compile()


def reward(task: Task, state: Sum) -> float:
    return float(state["answer"] == task.gold)


def app(**changes: Any) -> Trainable:
    fields: dict[str, Any] = {
        "name": "sums",
        "graph": build,
        "nodes": ("answer",),
        "tasks": lambda split, number: [TASK] * number,
        "inputs": lambda task: {"question": task.question, "answer": ""},
        "reward": reward,
    }
    return Trainable(**(fields | changes))


TASK = Task(id="1", question="1 + 1?", gold="2")


async def two(request: ChatRequest) -> TokenReply:
    return TokenReply("2", [1], [2, 3], [-0.1, -0.2], "stop")


async def rollout(trainable: Trainable, generate: Any = two, seconds: float = LAST_RESORT) -> Trajectory:
    return await run(trainable, trainable.built(), TASK, generate, id="r", seconds=seconds)


async def test_a_rollout_that_ends_has_a_reward_and_its_calls() -> None:
    trajectory = await rollout(app())
    assert (trajectory.status, trajectory.reward) == (RolloutStatus.OK, 1.0)
    assert [call.response_ids.tolist() for call in trajectory.calls] == [[2, 3]]
    record = RolloutRecord.of(trajectory, 4, "train")
    [call] = record.calls
    assert (record.step, call.node, call.prompt_tokens, call.sampled_tokens) == (4, "answer", 1, 2)


async def test_a_rollout_has_the_times_of_its_modules_and_calls_without_their_texts() -> None:
    record = RolloutRecord.of(await rollout(app()), 4, "train")
    module, call = record.spans
    assert (module.kind, module.name, call.kind, call.module, call.parent) == (
        "module",
        "answer",
        "model_call",
        "answer",
        0,
    )
    assert (call.input_tokens, call.output_tokens, call.prompt, call.replies) == (1, 2, [], [])
    assert 0 <= module.start <= call.start <= call.start + call.seconds <= module.start + module.seconds + 1e-3
    line = to_line(record)
    assert "prompt" not in json.loads(line)["spans"][1]
    assert RolloutRecord.model_validate_json(line).spans == record.spans


@pytest.mark.parametrize("nodes", [("outer",), ("answer",), ("outer", "answer")])
async def test_a_graph_that_is_a_node_is_trained_by_its_name_or_its_nodes(nodes: tuple[str, ...]) -> None:
    builder = StateGraph(Sum)
    builder.add_node("outer", build())
    builder.add_edge(START, "outer")
    trajectory = await rollout(app(graph=builder.compile(), nodes=nodes))
    assert (trajectory.status, trajectory.reward) == (RolloutStatus.OK, 1.0)
    assert [call.node for call in trajectory.calls] == ["outer/answer"]


async def test_a_tool_that_hangs_ends_its_rollout() -> None:
    """A blocking call cannot be taken back from its thread, but nobody waits for it any more."""
    released = threading.Event()

    def hangs(state: Sum) -> Sum:
        released.wait(LAST_RESORT)
        return state

    def with_tool() -> Any:
        builder = StateGraph(Sum)
        builder.add_node("answer", hangs)
        builder.add_edge(START, "answer")
        builder.add_edge("answer", END)
        return builder.compile()

    try:
        trajectory = await rollout(app(graph=with_tool), seconds=0.3)
    finally:
        released.set()
    assert (trajectory.status, trajectory.reward) == (RolloutStatus.TIMED_OUT, 0.0)
    assert trajectory.trace.error == "the run took longer than 0.3 s"


async def test_a_reward_may_be_awaited() -> None:
    async def judged(task: Task, state: Sum) -> float:
        await asyncio.sleep(0)
        return 0.5

    assert (await rollout(app(reward=judged))).reward == 0.5


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
    assert (trajectory.status, trajectory.trace.error) == (status, reason)
    assert len(trajectory.calls) == 1


async def test_a_sandbox_that_fails_is_tried_again_and_never_the_policys_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = 0

    async def fails_once(code: str, limits: Limits) -> Outcome:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise SandboxError("the sandbox's fork server ended while the code ran")
        return Outcome("2", "", 0)

    async def answer(state: Sum) -> Sum:
        await Policy().ainvoke(state["question"])
        return {**state, "answer": (await run_tool(python_coder(), {"code": "print(2)"}, 3600)).output}

    def computes() -> Any:
        builder = StateGraph(Sum)
        builder.add_node("answer", answer)
        builder.add_edge(START, "answer")
        builder.add_edge("answer", END)
        return builder.compile()

    monkeypatch.setattr(tool_module, "execute", fails_once)
    trainable = app(graph=computes)
    masked = await rollout(trainable)
    assert (masked.status, masked.reward, masked.faults) == (RolloutStatus.ENDPOINT_FAILED, 0.0, [False])
    tries, kept = 0, list[Entry]()
    replay_log, graph = ReplayLog("r", keep=kept.append), trainable.built()
    again = await run_recorded(trainable, graph, TASK, lambda: two, replay_log, seconds=LAST_RESORT, tries=2)
    assert (again.status, again.reward, tries) == (RolloutStatus.OK, 1.0, 2)
    assert [told.kind for told in kept] == ["policy", "tool"]


@pytest.mark.parametrize(
    "bad", [math.nan, math.inf, -math.inf, 37, -0.001, 1.001, "1", "high", [1.0], 1j, 10**400, object()]
)
@pytest.mark.parametrize("awaited", [False, True])
async def test_a_reward_that_is_no_number_from_0_to_1_is_refused_with_its_task(bad: Any, awaited: bool) -> None:
    """NaN poisoned its group, and 37 was taken."""

    async def later(task: Task, state: Sum) -> Any:
        return bad

    trajectory = await rollout(app(reward=later if awaited else lambda task, state: bad))
    assert (trajectory.status, trajectory.reward) == (RolloutStatus.BAD_REWARD, 0.0)
    assert f"task '{TASK.id}'" in trajectory.trace.error


@pytest.mark.parametrize("good", [0, 1, 0.25, True, np.float32(0.5), np.int64(1), Decimal("0.5"), -0.0])
async def test_a_number_of_any_library_is_a_reward(good: Any) -> None:
    trajectory = await rollout(app(reward=lambda task, state: good))
    assert (trajectory.status, trajectory.reward) == (RolloutStatus.OK, float(good))


@pytest.mark.parametrize("faults", [[True, False], [True] * 5])
async def test_faults_have_one_entry_per_call_or_none(faults: list[bool]) -> None:
    trajectory = await rollout(app(faults=lambda state: faults))
    assert trajectory.status == RolloutStatus.BAD_REWARD
    assert f"'{TASK.id}'" in trajectory.trace.error


@pytest.mark.parametrize("earned", [[math.nan], ["1"], [2.0], [-1.5], [0.5, 0.5]])
async def test_what_turns_earn_is_checked_too(earned: list[Any]) -> None:
    trajectory = await rollout(app(turn_rewards=lambda task, state: earned))
    assert trajectory.status == RolloutStatus.BAD_REWARD
    assert f"'{TASK.id}'" in trajectory.trace.error


async def test_a_graph_with_a_checkpointer_has_a_thread_for_each_rollout() -> None:
    builder = StateGraph(Sum)
    builder.add_node("answer", lambda state: {"answer": Policy().invoke(state["question"]).text})
    builder.add_edge(START, "answer")
    saver = InMemorySaver()
    graph, trainable = builder.compile(checkpointer=saver), app()
    ended = await asyncio.gather(*(run(trainable, graph, TASK, two, id=id, seconds=LAST_RESORT) for id in ("a", "b")))
    assert [(one.status, len(one.calls)) for one in ended] == [(RolloutStatus.OK, 1)] * 2
    assert {saved.config["configurable"]["thread_id"] for saved in saver.list(None)} == {"a", "b"}


# Where a node calls the policy from


def calling(node: Any) -> Trainable:
    """An app whose only node is `node`."""

    def built() -> Any:
        builder = StateGraph(Sum)
        builder.add_node("answer", node)
        builder.add_edge(START, "answer")
        return builder.compile()

    return app(graph=built, reward=lambda task, state: 1.0)


def invoked(state: Sum) -> str:
    return str(Policy(fallback="openai:never-asked").invoke(state["question"]).text)


def _by_thread(state: Sum) -> Sum:
    answers: list[str] = []
    thread = threading.Thread(target=lambda: answers.append(invoked(state)))
    thread.start()
    thread.join()
    return {**state, "answer": answers[0]}


def _by_pool(state: Sum) -> Sum:
    with ThreadPoolExecutor(2) as pool:
        return {**state, "answer": pool.submit(invoked, state).result()}


_LASTING_POOL = ThreadPoolExecutor(1)


def _by_lasting_pool(state: Sum) -> Sum:
    return {**state, "answer": _LASTING_POOL.submit(invoked, state).result()}


async def _by_to_thread(state: Sum) -> Sum:
    return {**state, "answer": await asyncio.to_thread(invoked, state)}


async def _by_executor(state: Sum) -> Sum:
    return {**state, "answer": await asyncio.get_running_loop().run_in_executor(None, invoked, state)}


def _by_batch(state: Sum) -> Sum:
    return {**state, "answer": str(Policy().batch([state["question"]])[0].text)}


def _by_a_loop_of_its_own(state: Sum) -> Sum:
    return {**state, "answer": str(asyncio.run(Policy().ainvoke(state["question"])).text)}


@pytest.mark.parametrize(
    "node", [_by_thread, _by_pool, _by_lasting_pool, _by_to_thread, _by_executor, _by_batch, _by_a_loop_of_its_own]
)
async def test_calls_from_threads_of_a_node_belong_to_its_rollout(node: Any) -> None:
    """They lost the context and went to the fallback, and the rollout counted as ok."""

    def named(name: str) -> Any:
        async def generate(request: ChatRequest) -> TokenReply:
            await asyncio.sleep(0)
            return TokenReply(name, [1], [2], [-0.1], "stop")

        return generate

    trainable = calling(node)
    graph, names = trainable.built(), [f"r{n}" for n in range(8)]
    runs = (run(trainable, graph, TASK, named(name), id=name, seconds=LAST_RESORT) for name in names)
    for name, ended in zip(names, await asyncio.gather(*runs), strict=True):
        assert ended.status == RolloutStatus.OK, ended.trace.error
        assert ended.trace.answer == name


async def test_an_async_node_that_invokes_is_an_error_at_once() -> None:
    """It held the event loop for ever, and no timeout fired."""

    async def answer(state: Sum) -> Sum:
        return {**state, "answer": invoked(state)}

    trajectory = await rollout(calling(answer), seconds=LAST_RESORT)
    assert trajectory.status == RolloutStatus.CRASHED
    assert "ainvoke" in trajectory.trace.error


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_an_async_node_that_waits_for_its_threads_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentflow.rl.policy.policy.PATIENCE", 0.2)

    async def answer(state: Sum) -> Sum:
        return _by_thread(state)

    trajectory = await rollout(calling(answer), seconds=LAST_RESORT)
    assert trajectory.status == RolloutStatus.CRASHED
    assert "to_thread" in trajectory.trace.error


async def test_a_call_that_belongs_to_no_rollout_is_refused_and_never_paid_for() -> None:
    """The graph passes the error over; the rollout does not."""

    def answer(state: Sum) -> Sum:
        with suppress(RuntimeError):
            Context().run(invoked, state)
        return {**state, "answer": "2"}

    trajectory = await rollout(calling(answer))
    assert trajectory.status == RolloutStatus.CRASHED
    assert "thread" in trajectory.trace.error


async def test_a_rollout_that_never_ends_is_timed_out() -> None:
    async def hangs(request: ChatRequest) -> TokenReply:
        await asyncio.Event().wait()
        raise AssertionError

    trajectory = await rollout(app(), hangs, seconds=0.05)
    assert trajectory.status == RolloutStatus.TIMED_OUT
    assert "longer than 0.05 s" in trajectory.trace.error
    assert trajectory.calls == []


async def test_rollouts_share_no_memory() -> None:
    """The reference kept one memory per worker, so that a rollout read its sibling's results (its bug T1)."""
    seen: list[str] = []

    async def remembers(request: ChatRequest) -> TokenReply:
        seen.append(request.messages[-1]["content"])
        return await two(request)

    trainable = app()
    graph = trainable.built()
    await asyncio.gather(*(run(trainable, graph, TASK, remembers, id=str(n), seconds=LAST_RESORT) for n in range(8)))
    assert seen == [TASK.question] * 8


def test_apps_by_name() -> None:
    assert load_app("agentflow.rl.apps.planner:atlas", max_turns=2).nodes == ["planner"]


@pytest.mark.parametrize(
    ("name", "options", "code", "named"),
    [
        ("nowhere:app", {}, "not_loaded", "nowhere"),
        ("json:nothing", {}, "not_loaded", "nothing"),
        ("json:dumps", {"obj": 1}, "no_app", "str"),
        ("agentflow.rl.apps.planner:atlas", {"turns": 3}, "unknown_options", "turns"),
    ],
)
def test_names_that_are_no_app(name: str, options: dict[str, Any], code: str, named: str) -> None:
    with fails(AppError, code, name.partition(":")[0], named):
        load_app(name, **options)
