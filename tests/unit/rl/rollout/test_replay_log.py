"""A replayed rollout gets the recorded responses: nothing is requested twice, and it ends in the same way."""

from collections import Counter
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.caches import InMemoryCache
from langchain_core.globals import get_llm_cache, set_llm_cache
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatResult, Generation
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph

from agentflow.graph.models.spec import ModelError
from agentflow.graph.run.task import Task
from agentflow.rl.apps.trainable import Trainable
from agentflow.rl.policy.chat import ChatRequest, TokenReply
from agentflow.rl.policy.policy import Policy
from agentflow.rl.rollout.replay_log import Entry, ReplayLog, ReplayLogs, ReplayMismatch, replaying
from agentflow.rl.rollout.rollout import Rollout, RolloutStatus, run_recorded
from agentflow.tools.run import run_tool
from tests.graphs import TASK, trainable
from tests.waiting import LAST_RESORT

TURNS = 4


class Steps(TypedDict):
    said: list[str]


class World:
    """Everything that a rollout may ask, each answer another one, with a count of what was asked."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    async def policy(self, request: ChatRequest) -> TokenReply:
        number = self._next("policy")
        return TokenReply(f"plan {number}", [1, 2, number], [7, number], [-0.5, -0.25 / number], "stop", 3)

    def graph(self) -> Any:
        """Plans, asks a model and a tool at the same time, and begins again."""
        world = self

        class Frozen(GenericFakeChatModel):
            messages: Any = ()

            def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
                from langchain_core.outputs import ChatGeneration

                message = AIMessage(f"note {world._next('model')}", response_metadata={"token_ids": [1] * 9})
                return ChatResult(generations=[ChatGeneration(message=message)])

        @tool
        def look(plan: str) -> str:
            """Looks."""
            return f"seen {world._next('tool')}"

        async def planner(state: Steps) -> dict[str, Any]:
            return {"said": [*state["said"], str((await Policy().ainvoke("\n".join(state["said"]))).text)]}

        async def worker(state: Steps) -> dict[str, Any]:
            note = await Frozen().ainvoke(state["said"][-1])
            result = await run_tool(look, {"plan": state["said"][-1]}, LAST_RESORT)
            return {"said": [*state["said"], str(note.text), result.output]}

        builder = StateGraph(Steps).add_sequence([("planner", planner), ("worker", worker)]).add_edge(START, "planner")
        builder.add_conditional_edges("worker", lambda state: END if len(state["said"]) >= 3 * TURNS else "planner")
        return builder.compile()

    async def reward(self, task: Task, state: Steps) -> float:
        return 1 / self._next("judge")

    def app(self) -> Trainable:
        return trainable(self.graph, "planner", inputs=lambda task: {"said": []}, reward=self.reward)

    def _next(self, kind: str) -> int:
        self.asked[kind] += 1
        return self.asked[kind]


CALLS = {"policy": TURNS, "model": TURNS, "tool": TURNS, "judge": 1}


async def rollout(world: World, replay_log: ReplayLog, tries: int = 1) -> Rollout:
    app = world.app()
    return await run_recorded(app, app.built(), TASK, lambda: world.policy, replay_log, seconds=10, tries=tries)


def outcome(trajectory: Rollout) -> object:
    calls = [replace(call, rollout="") for call in trajectory.calls]
    return trajectory.status, trajectory.reward, calls, trajectory.trace.answer


@settings(max_examples=25)
@given(kept=st.integers(0, 3 * TURNS + 1), torn=st.integers(0, 60))
async def test_a_rollout_that_was_killed_anywhere_goes_on_there(
    tmp_path_factory: pytest.TempPathFactory, kept: int, torn: int
) -> None:
    """The last line may be written in part: its call was made, and has to be made again."""
    path = tmp_path_factory.mktemp("replay_logs") / "replay log"
    whole = await rollout(World(), ReplayLogs(path).of("1/0"))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:kept]) + b"".join(lines[kept : kept + 1])[:torn])
    told = Counter(str(line.kind).replace("reward", "judge") for line in map(Entry.model_validate_json, lines[:kept]))
    world = World()
    world.asked += told  # the world goes on counting where it was
    again = await rollout(world, ReplayLogs(path).of("1/0"))
    assert whole.status == RolloutStatus.OK
    assert outcome(again) == outcome(whole)
    assert world.asked == CALLS
    third = await rollout(world, ReplayLogs(path, live=False).of("1/0"))
    assert outcome(third) == outcome(whole)


async def test_rollouts_share_a_file_and_no_answers(tmp_path: Path) -> None:
    replay_logs, worlds = ReplayLogs(tmp_path / "replay log"), [World(), World()]
    worlds[1].asked.update({"policy": 10})
    first = [await rollout(world, replay_logs.of(f"1/{number}")) for number, world in enumerate(worlds)]
    again = [
        await rollout(World(), ReplayLogs(tmp_path / "replay log", live=False).of(f"1/{number}")) for number in range(2)
    ]
    assert list(map(outcome, again)) == list(map(outcome, first))
    assert outcome(first[0]) != outcome(first[1])


async def test_what_arrives_after_the_end_of_a_rollout_does_not_undo_it(tmp_path: Path) -> None:
    """A thread cannot be ended: the model that it asked answers after its rollout has run out of time."""
    replay_logs = ReplayLogs(tmp_path / "replay log")
    replay_logs.of("1/0").ended("timed_out", 0.0)
    replay_logs.of("1/0").add("model", "late", {})
    assert ReplayLogs(tmp_path / "replay log", live=False).rollouts == ["1/0"]


async def test_what_was_not_asked_before_ends_a_playback() -> None:
    replay_log = ReplayLog("1/0")
    trajectory = await rollout(World(), replay_log)
    assert trajectory.status == RolloutStatus.CRASHED
    assert "ReplayMismatch: a request to the policy that was not made before" in trajectory.trace.error
    assert replay_log.missing == "a request to the policy that was not made before"
    with pytest.raises(ReplayMismatch):
        replay_log.known("tool", "x")


async def test_a_model_that_did_not_answer_is_all_that_a_second_try_asks() -> None:
    world = World()
    works, failures = world.policy, [ModelError("down")] * 2

    async def breaks_at_the_third(request: ChatRequest) -> TokenReply:
        if world.asked["policy"] == 2 and failures:
            raise failures.pop()
        return await works(request)

    world.policy = breaks_at_the_third  # type: ignore[method-assign]
    replay_log = ReplayLog("1/0", keep=lambda told: None)
    assert (await rollout(world, replay_log)).status == RolloutStatus.ENDPOINT_FAILED
    assert world.asked == {"policy": 2, "model": 2, "tool": 2}
    assert (await rollout(world, replay_log, tries=2)).status == RolloutStatus.OK
    assert world.asked == CALLS


@pytest.fixture(autouse=True)
def no_cache() -> Any:
    yield
    set_llm_cache(None)


def test_the_cache_of_the_process_answers_beside_rollouts_and_is_there_again_after_the_last() -> None:
    own = InMemoryCache()
    set_llm_cache(own)
    outside = copy_context()
    with replaying(ReplayLog("1/0")):
        with replaying(ReplayLog("1/1")):
            assert get_llm_cache() is not own
        cache = get_llm_cache()
        assert cache not in (None, own)
        outside.run(cache.update, "prompt", "model", [Generation(text="kept")])  # type: ignore[union-attr]
    assert get_llm_cache() is own
    assert own.lookup("prompt", "model") == [Generation(text="kept")]
