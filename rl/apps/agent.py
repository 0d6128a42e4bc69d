"""Training of an agent as it stands: a compiled LangGraph graph with a file of tasks and a reward.

    agentflow train my_package.my_agent:agent --tasks tasks.jsonl --reward my_package.my_agent:score

The graph is not changed. Each task becomes its input, and the policy answers the model calls of the nodes that learn
(`agentflow.rl.policy.policy`).
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from langchain_core.messages import HumanMessage

from agentflow.evals.benchmarks.errors import READING, BenchmarkError, refused
from agentflow.evals.benchmarks.readers import accepted
from agentflow.evals.benchmarks.rows import read_rows
from agentflow.evals.scorers.free_text import free_text
from agentflow.evals.scorers.score import Decision
from agentflow.graph.run.runner import Graph, final_text
from agentflow.graph.run.task import Task, identity
from agentflow.rl.apps.trainable import AppError, Split, Trainable
from agentflow.rl.policy.node_paths import Nodes, node_patterns
from agentflow.tools.named_object import NamedObjectError, named_object

TEST_SHARE = 5
"""One in TEST_SHARE tasks is held out, chosen by the hash of its content, where no file of test tasks is given."""

GivenNodes = str | Collection[str]
"""Patterns of nodes as options give them: with commas or as a list."""

Reward = Callable[[Task, Any], float | Awaitable[float | None] | None]


def trainable_agent(
    name: str,
    graph: Graph,
    *,
    tasks: str = "",
    reward: str = "",
    nodes: GivenNodes = (),
    test: str = "",
) -> Trainable:
    """Build the trainable app of a graph.

    Args:
        name: Name of the graph, `module:attribute`.
        graph: The compiled graph.
        tasks: File of tasks (JSON lines, JSON, CSV or parquet). A row has a `question`, which the graph gets as a
            message, or `inputs`, which are the graph's input; `answer` and all other columns are the reward's.
        reward: Function of a task and the graph's final state, as `module:attribute`; by default, the answer is
            compared with the column `answer`.
        nodes: Patterns of the nodes that learn, or one string of them with commas; by default, all.
        test: File of the test tasks; by default, one in five tasks is held out.

    Raises:
        AppError: An option is missing or wrong.
    """
    if not tasks:
        raise AppError(f"'{name}' is a graph, which needs tasks; give a file with --tasks FILE")
    score = _reward(reward) if reward else compare

    @cache
    def read(file: str) -> list[Task]:
        return read_tasks(Path(file), graded=not reward)

    def split_tasks(split: Split, number: int) -> list[Task]:
        found = read(test if split == "test" and test else tasks)
        return (found if test else share_of(found, split))[:number]

    return Trainable(
        name=name,
        graph=graph,
        nodes=app_nodes(nodes),
        tasks=split_tasks,
        inputs=inputs,
        reward=score,
    )


def share_of(tasks: list[Task], split: Split) -> list[Task]:
    """Return the tasks of a split where no file of test tasks is given."""
    return [one for one in tasks if (int(one.id, 16) % TEST_SHARE == 0) == (split == "test")]


def app_nodes(given: GivenNodes) -> Nodes:
    """Return the nodes of an app as given in its options. Raises AppError."""
    if isinstance(given, Mapping):
        raise AppError(f"nodes are patterns without names, not {dict(given)}", code="named_nodes")
    return node_patterns(given)


def read_tasks(path: Path, *, graded: bool) -> list[Task]:
    """Read a file of tasks; if `graded`, each must have an answer. Raises AppError."""
    try:
        rows = read_rows(path)
    except BenchmarkError as error:
        raise AppError(str(error)) from error
    found: dict[str, Task] = {}
    for place, row in rows:
        given = row.get("inputs")
        question = str(row.get("question") or (given if isinstance(given, dict) else ""))
        if not question.strip():
            raise AppError(f"{place} of {path} has neither a question nor inputs; its columns are {', '.join(row)}")
        try:
            gold, *aliases = accepted(row) if graded else [str(row.get("answer", ""))]
        except READING as error:
            refusal = f"{place} of {path} has no answer to compare with, and no reward (--reward) is given"
            raise AppError(str(refused(refusal, row, error))) from error
        one = Task(
            id=identity(question, gold),
            question=question,
            gold=gold,
            data={**row, "aliases": aliases} if aliases else dict(row),
        )
        found.setdefault(one.id, one)
    return list(found.values())


def inputs(task: Task) -> Any:
    """Return the graph's input for a task."""
    given = task.data.get("inputs")
    return given if isinstance(given, dict) else {"messages": [HumanMessage(task.question)]}


def compare(task: Task, state: Any) -> float | None:
    """Return 1 if the answer is the task's, else 0; None if that cannot be decided by rule."""
    score = free_text(final_text(state), [task.gold, *(task.data.get("aliases") or [])])
    return None if score.decision == Decision.UNDECIDED else float(score.decision == Decision.CORRECT)


def _reward(name: str) -> Reward:
    try:
        found = named_object(name)
    except NamedObjectError as error:
        raise AppError(f"the reward cannot be loaded: {error}") from error
    if not callable(found):
        raise AppError(f"the reward '{name}' is a {type(found).__name__}, not a function of a task and a state")
    return found
