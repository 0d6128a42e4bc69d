"""AgentFlow's planner as an app, with the oracle in the policy's place."""

import re
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

import agentflow.rl
from agentflow.evals.agent_names import AGENTS
from agentflow.evals.atlas.oracle import Oracle
from agentflow.rl.apps.planner import atlas
from agentflow.rl.apps.trainable import AppError
from agentflow.rl.policy.chat import ChatRequest, TokenReply
from agentflow.rl.rollout.packing import pack
from agentflow.rl.rollout.rollout import RolloutStatus
from tests.chat_templates import ScriptedPolicy, needs_templates
from tests.failing import fails
from tests.graphs import Server, rollout

PRESETS = Path(agentflow.rl.__file__).parent / "presets"
TYPES = {"system": SystemMessage, "user": HumanMessage, "assistant": AIMessage}


async def oracle(request: ChatRequest) -> TokenReply:
    chat: list[BaseMessage] = [TYPES[message["role"]](message["content"]) for message in request.messages]
    assert request.sampling.max_tokens == 128
    reply = Oracle()._generate(chat).generations[0].message  # without callbacks, as a server would
    return TokenReply(str(reply.text), [1], [2], [-0.1], "stop")


nonsense = Server("Tool: crystal_ball")


async def test_right_plans_are_rewarded_and_every_turn_is_traced() -> None:
    app = atlas(frozen="atlas-oracle")
    for task in app.tasks("train", 12):
        trajectory = await rollout(app, oracle, task=task)
        assert (trajectory.status, trajectory.reward) == (RolloutStatus.OK, 1.0)
        assert len(trajectory.calls) == len(trajectory.trace.turns) == len(trajectory.faults)
        assert {call.node for call in trajectory.calls} == {"planner"}
        assert not any(trajectory.faults)


async def test_a_plan_without_a_tool_is_a_fault() -> None:
    app = atlas(frozen="atlas-oracle", max_turns=2)
    trajectory = await rollout(app, nonsense, task=app.tasks("train", 1)[0])
    assert (trajectory.status, trajectory.reward) == (RolloutStatus.OK, 0.0)
    assert trajectory.faults == [True, True]


@needs_templates
@pytest.mark.parametrize(("role", "rows"), [("user", 3), ("tool", 1)])
async def test_a_planner_that_thinks_keeps_its_thoughts_where_results_are_tools(role: str, rows: int) -> None:
    """Qwen3's template drops thoughts before the last message of a user; what was sampled is trained on once."""
    pytest.importorskip("transformers")
    app = atlas(frozen="atlas-oracle", max_turns=3)
    context = app.context().model_copy(update={"result_role": role})
    numbers = count()
    policy = ScriptedPolicy(
        "qwen3", lambda _: f"<think>\nhm {next(numbers)}\n</think>\n\nTool: crystal_ball {next(numbers)}"
    )
    found = await rollout(replace(app, context=lambda: context), policy, task=app.tasks("train", 1)[0])
    earlier = [message for message in policy.requests[-1].messages if message["role"] == "assistant"]
    thoughts = ["hm 0", "hm 2"] if role == "tool" else [None, None]
    assert [message.get("reasoning_content") for message in earlier] == thoughts
    packed = pack(found.calls, limit=100_000)
    assert (len(packed), len(found.calls)) == (rows, 3)
    assert sum(map(sum, (row.mask for row in packed))) == sum(len(call.response_ids) for call in found.calls)


async def test_several_nodes_share_the_policy() -> None:
    app = atlas(frozen="atlas-oracle", nodes=("planner", "verifier"))
    trajectory = await rollout(app, oracle, task=app.tasks("train", 2)[1])
    assert {call.node for call in trajectory.calls} == {"planner", "verifier"}
    assert trajectory.reward == 1.0


async def test_a_rollout_without_a_plan_has_no_reward_whatever_its_answer_holds() -> None:
    app = atlas()
    task = app.tasks("train", 1)[0]
    assert app.reward(task, {"answer": task.gold, "status": "answered"}) == 1.0
    assert app.reward(task, {"answer": task.gold, "status": "no_plan"}) == 0.0


def test_train_and_test_tasks_differ() -> None:
    app = atlas()
    train, test = ({task.question for task in app.tasks(split, 48)} for split in ("train", "test"))  # type: ignore[arg-type]
    assert not train & test


def test_the_clock_of_a_rollout_is_the_trainings() -> None:
    """A small model on a busy processor may take longer than a run's usual five minutes."""
    clocks = [re.findall(r"^rollout_seconds: (\d+)", path.read_text(), re.MULTILINE) for path in PRESETS.glob("*.yaml")]
    assert max(int(seconds) for found in clocks for seconds in found) <= atlas().context().max_seconds


async def test_the_monolithic_policy_is_trained_as_the_planner_is() -> None:
    app = atlas(agent="react", tools=["python_coder"])
    task = app.tasks("train", 1)[0]

    async def answers(request: ChatRequest) -> TokenReply:
        said = "Tool: crystal_ball\n{}" if len(request.messages) == 2 else f"Answer: {task.gold}"
        return TokenReply(said, [1], [2], [-0.1], "stop")

    trajectory = await rollout(app, answers, task=task)
    assert (trajectory.status, trajectory.reward) == (RolloutStatus.OK, 1.0)
    assert [call.node for call in trajectory.calls] == ["planner", "planner"]
    assert trajectory.faults == [True, False]


def test_an_agent_that_does_not_exist_is_one_line() -> None:
    unknown: Any = "autogen"
    with fails(AppError, "unknown_agent", unknown, *AGENTS):
        atlas(agent=unknown)
