import asyncio
import threading
from collections.abc import Sequence
from typing import Any, TypedDict

import pytest
from langgraph.graph import END, START, StateGraph

from agentflow.graph.context import Sampling
from agentflow.graph.models.spec import ModelError
from agentflow.rl.policy import Policy, TokenReply
from agentflow.rl.rollout import Fate, RolloutRecord, Trajectory, run
from agentflow.rl.trainable import AppError, Task, Trainable, load_app
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


async def two(messages: Sequence[tuple[str, str]], sampling: Sampling) -> TokenReply:
    return TokenReply("2", [1], [2, 3], [-0.1, -0.2], "stop")


async def rollout(trainable: Trainable, generate: Any = two, seconds: float = 5) -> Trajectory:
    return await run(trainable, trainable.built(), TASK, generate, id="r", seconds=seconds)


async def test_a_rollout_that_ends_has_a_reward_and_its_calls() -> None:
    trajectory = await rollout(app())
    assert (trajectory.fate, trajectory.reward) == (Fate.OK, 1.0)
    assert [call.response_ids.tolist() for call in trajectory.calls] == [[2, 3]]
    record = RolloutRecord.of(trajectory, 4, "train")
    assert (record.step, record.calls, record.prompt_tokens, record.sampled_tokens) == (4, 1, 1, 2)


@pytest.mark.parametrize("nodes", [("outer",), ("answer",), ("outer", "answer")])
async def test_a_graph_that_is_a_node_is_trained_by_its_name_or_its_nodes(nodes: tuple[str, ...]) -> None:
    builder = StateGraph(Sum)
    builder.add_node("outer", build())
    builder.add_edge(START, "outer")
    trajectory = await rollout(app(graph=builder.compile(), nodes=nodes))
    assert (trajectory.fate, trajectory.reward) == (Fate.OK, 1.0)
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
    assert (trajectory.fate, trajectory.reward) == (Fate.TIMED_OUT, 0.0)
    assert trajectory.episode.error == "the rollout took longer than 0.3 s"


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
    ("reward", "fate", "reason"),
    [
        (lambda task, state: None, Fate.UNDECIDED, ""),
        (_raises(ModelError("the judge is down")), Fate.ENDPOINT_FAILED, "the judge is down"),
        (_raises(KeyError("x")), Fate.CRASHED, "KeyError: 'x'"),
    ],
)
async def test_a_reward_that_cannot_be_told_is_a_fate_and_not_a_zero(reward: Any, fate: Fate, reason: str) -> None:
    """The reference trained on a judge's failure as if the answer had been wrong (its bug T8)."""
    trajectory = await rollout(app(reward=reward))
    assert (trajectory.fate, trajectory.episode.error) == (fate, reason)
    assert len(trajectory.calls) == 1


async def test_a_rollout_that_never_ends_is_timed_out() -> None:
    async def hangs(messages: Sequence[tuple[str, str]], sampling: Sampling) -> TokenReply:
        await asyncio.Event().wait()
        raise AssertionError

    trajectory = await rollout(app(), hangs, seconds=0.05)
    assert trajectory.fate == Fate.TIMED_OUT
    assert "longer than 0.05 s" in trajectory.episode.error
    assert trajectory.calls == []


async def test_rollouts_share_no_memory() -> None:
    """The reference kept one memory per worker, so that a rollout read its sibling's results (its bug T1)."""
    seen: list[str] = []

    async def remembers(messages: Sequence[tuple[str, str]], sampling: Sampling) -> TokenReply:
        seen.append(messages[-1][1])
        return await two(messages, sampling)

    trainable = app()
    graph = trainable.built()
    await asyncio.gather(*(run(trainable, graph, TASK, remembers, id=str(n), seconds=LAST_RESORT) for n in range(8)))
    assert seen == [TASK.question] * 8


def test_a_node_that_the_graph_does_not_have() -> None:
    with pytest.raises(AppError, match="no node 'planner'; its nodes are answer"):
        app(nodes=("planner",)).built()


def test_apps_by_name() -> None:
    assert load_app("agentflow.rl.planner:atlas", max_turns=2).nodes == ("planner",)


@pytest.mark.parametrize(
    ("name", "options", "problem"),
    [
        ("nowhere:app", {}, "cannot be imported"),
        ("json:nothing", {}, "cannot be imported"),
        ("json:dumps", {"obj": 1}, "is a str, not"),
        ("agentflow.rl.planner:atlas", {"turns": 3}, "does not take these options"),
    ],
)
def test_names_that_are_no_app(name: str, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(AppError, match=problem):
        load_app(name, **options)
