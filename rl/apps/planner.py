"""Trainable app of AgentFlow's planner: the agent's graph on Atlas, with all modules but the planner frozen.

The monolithic policy that it is compared with, `agent=react`, is trained in the same way, since it is the same node.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from langchain_core.messages import HumanMessage

from agentflow.evals.agent_names import AGENTS, AgentName
from agentflow.evals.agents import agent_graph
from agentflow.evals.atlas.families import questions
from agentflow.evals.benchmarks.catalogue import ATLAS_SIZE
from agentflow.evals.scorers.exact import correct
from agentflow.graph.context import DEFAULT_TOOLS, Context
from agentflow.graph.run.task import Task
from agentflow.graph.state import InputState
from agentflow.rl.apps.agent import GivenNodes
from agentflow.rl.apps.trainable import AppError, Split, Trainable, no_faults
from agentflow.rl.policy.node_paths import node_patterns

CLOCK = 86_400.0
"""Maximum seconds of a run, beyond those of any rollout: `rollout_seconds` is the clock of a rollout."""


def atlas(
    max_turns: int = 6,
    max_tokens: int = 128,
    frozen: str = "embedded:seed",
    nodes: GivenNodes = ("planner",),
    agent: AgentName = "agentflow",
    tools: Sequence[str] = DEFAULT_TOOLS,
) -> Trainable:
    """Build the trainable app of an agent on Atlas.

    Args:
        max_turns: Maximum number of planner turns in a rollout.
        max_tokens: Maximum number of tokens in one reply of the policy.
        frozen: Model of the modules that are not trained.
        nodes: Modules that are trained.
        agent: Agent, as in `agentflow eval --agent`.
        tools: Tools that the planner may choose from.

    Raises AppError if there is no such agent.
    """
    settings = {"model": frozen, "max_turns": max_turns, "corpus": "atlas", "tools": list(tools)}
    settings["sampling"] = {module: {"max_tokens": max_tokens} for module in node_patterns(nodes)}
    return trainable("atlas", agent, tasks, reward, nodes=nodes, settings=settings)


def trainable(
    name: str,
    agent: AgentName,
    tasks: Callable[[Split, int], Sequence[Task]],
    reward: Callable[[Task, Any], float | Awaitable[float | None]],
    *,
    nodes: GivenNodes,
    settings: Mapping[str, Any],
) -> Trainable:
    """Build the trainable app of `agent`: `nodes` call the policy, `settings` are the other fields of its `Context`.

    Unless `settings` say otherwise, no reply of the frozen modules has an enforced form, and the first step is the
    planner's, which learns it, too.

    Raises AppError if there is no such agent.
    """
    if agent not in AGENTS:
        raise AppError(f"there is no agent '{agent}'; the agents are {', '.join(AGENTS)}", code="unknown_agent")
    modules = node_patterns(nodes)
    ours = {"structured_output": "off", "max_seconds": CLOCK, "opening": "plan"}
    context = Context.model_validate({**ours, **settings, "models": dict.fromkeys(modules, "policy")})

    def rewarded(task: Task, state: Any) -> float | Awaitable[float | None] | None:
        return 0.0 if state.get("status") == "no_plan" else reward(task, state)

    return Trainable(
        name=name,
        graph=lambda: agent_graph(agent),
        nodes=modules,
        tasks=tasks,
        inputs=lambda task: InputState(messages=[HumanMessage(task.question)]),
        reward=rewarded,
        context=lambda: context,
        faults=FAULTS.get(agent, no_faults) if modules == ["planner"] else no_faults,
    )


def tasks(split: Split, number: int) -> list[Task]:
    """Return the first `number` questions of Atlas. Raises AppError if they reach the final ones."""
    if split == "test" and number > ATLAS_SIZE:
        raise AppError(
            f"Atlas has {ATLAS_SIZE} test questions, and those after them are kept for final figures: "
            f"set test_tasks={ATLAS_SIZE} or less",
            code="final_questions",
        )
    return [
        Task(
            id=f"{split}-{position}",
            question=question.question,
            gold=question.answer,
            family=question.family,
            data={"numbers": question.numbers, "target": question.target},
        )
        for position, question in enumerate(questions(split, number))
    ]


def reward(task: Task, state: dict[str, Any]) -> float:
    """Return 1 for a correct answer, else 0, by exact comparison."""
    check = partial(correct, gold=task.gold, numbers=tuple(task.data["numbers"]), target=task.data["target"])
    return float(check(str(state.get("answer", ""))))


def faults(state: dict[str, Any]) -> list[bool]:
    """Return whether each plan was unreadable, named no tool, or led to a failed tool call.

    Empty if time ran out, since the last plan may then have no turn in memory.
    """
    if state["status"] == "out_of_time":
        return []
    return [turn.action.result.error is not None for turn in state["memory"]]


def react_faults(state: dict[str, Any]) -> list[bool]:
    """Return the faults of the monolithic policy, whose last call is the answer, or exceeds the turn limit."""
    return [*faults(state), False] if state["status"] != "out_of_time" else []


FAULTS = {"agentflow": faults, "react": react_faults}
"""Fault functions by agent, for rollouts in which only the planner is trained; calls of other modules have no turn
number."""
