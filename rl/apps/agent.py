"""Training of an agent as it stands: a compiled LangGraph graph with a file of tasks and a reward.

    agentflow train my_package.my_agent:agent --tasks tasks.jsonl --reward my_package.my_agent:score

The graph is not changed. Each task becomes its input, and the policy answers the model calls of the nodes that learn
(`agentflow.rl.policy.policy`).
"""

from collections.abc import Callable, Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs

from agentflow.evals.benchmarks.errors import READING, BenchmarkError, refused
from agentflow.evals.benchmarks.own import by_letter, reading
from agentflow.evals.benchmarks.readers import QUESTIONS
from agentflow.evals.benchmarks.rows import read_rows
from agentflow.evals.scorers.score import Decision
from agentflow.graph.run.runner import final_text
from agentflow.graph.run.task import Task, identity
from agentflow.rl.apps.trainable import AppError, Made, Split, Trainable
from agentflow.rl.policy.node_paths import node_patterns
from agentflow.tools.json_codec import object_from_json
from agentflow.tools.named_object import NamedObjectError, named_object

TEST_SHARE = 5
"""One in TEST_SHARE tasks is held out, chosen by the hash of its content, where no file of test tasks is given."""

RUN_COLUMNS = ("inputs", "context", "config")
"""Columns that a graph is run with beside the question: rows that differ in one of them are different tasks."""

GivenNodes = str | Collection[str]
"""Patterns of nodes as options give them: with commas or as a list."""

Given = str | Mapping[str, Any]
"""Settings as options give them: an object, JSON, or a file of JSON."""


def trainable_agent(
    name: str,
    graph: Made,
    *,
    tasks: str = "",
    reward: str = "",
    nodes: GivenNodes = (),
    test: str = "",
    context: Given = "",
    config: Given = "",
    answer: str = "",
    rollout: str = "",
) -> Trainable:
    """Build the trainable app of a graph.

    Args:
        name: Name of the graph, `module:attribute`.
        graph: The compiled graph, what makes it for each rollout, or another runnable.
        tasks: File of tasks (JSON lines, JSON, CSV or parquet). A row has a `question`, which the graph gets as a
            message, or `inputs`, which are the graph's input; `answer` and all other columns are the reward's.
        reward: Function of a task and the graph's final state, as `module:attribute`; by default, the answer is
            compared with the column `answer`.
        nodes: Patterns of the nodes that learn, or one string of them with commas; by default, all.
        test: File of the test tasks; by default, one in five tasks is held out.
        context: The context of each run, as an object, JSON or a file of it; a task's column `context` adds to it.
        config: Likewise LangChain's config, or only what is in its `configurable`; a column `config` adds to it.
        answer: Function of a task and an interrupt's value that answers it, as `module:attribute`.
        rollout: Function of the graph and a task that calls the graph and returns its state, as `module:attribute`.

    Raises:
        AppError: An option is missing or wrong.
    """
    if not tasks:
        raise AppError(f"'{name}' is a graph, which needs tasks; give a file with --tasks FILE")
    score = _function(reward, "reward") if reward else compare
    contexts, configs = _settings(context, "context"), run_config(config)

    def column(task: Task, name: str) -> dict[str, Any]:
        found = task.data.get(name)
        return found if isinstance(found, dict) else {}

    @cache
    def read(file: str) -> list[Task]:
        return read_tasks(Path(file), graded=not reward)

    def split_tasks(split: Split, number: int) -> list[Task]:
        found = read(test if split == "test" and test else tasks)
        if not (chosen := found if test else share_of(found, split)):
            raise AppError(f"{tasks} has too few tasks ({len(found)}) to hold some out; add more, or give --test FILE")
        return chosen[:number]

    return Trainable(
        name=name,
        graph=graph,
        nodes=node_patterns(nodes),
        tasks=split_tasks,
        inputs=inputs,
        reward=score,
        context=lambda task: {**contexts, **column(task, "context")} or None,
        config=lambda task: merge_configs(configs, run_config(column(task, "config"))),
        answer=_function(answer, "answer") if answer else None,
        rollout=_function(rollout, "rollout") if rollout else None,
    )


def share_of(tasks: list[Task], split: Split) -> list[Task]:
    """Return the tasks of a split where no file of test tasks is given. What is run alike goes together."""
    return [one for one in tasks if (int(one.id[:16], 16) % TEST_SHARE == 0) == (split == "test")]


def read_tasks(path: Path, *, graded: bool) -> list[Task]:
    """Read a file of tasks; if `graded`, each must have an answer. Raises AppError."""
    try:
        rows = read_rows(path)
    except BenchmarkError as error:
        raise AppError(str(error)) from error
    found: dict[str, Task] = {}
    for place, row in rows:
        given = row.get("inputs")
        asks = [str(row.get(name) or "") for name in QUESTIONS]
        question = next(filter(str.strip, asks), str(given) if isinstance(given, dict) else "")
        if not question:
            raise AppError(f"{place} of {path} has neither a question nor inputs; its columns are {', '.join(row)}")
        asked = {**_as_evaluated(row), "question": question}
        read, rule = reading([(place, asked)])
        try:
            known = read(asked)
            question, gold = known.question, known.gold
            names = ("stem", "options", "letter") if rule is by_letter else ("aliases",)
            data = {**row, "aliases": [], **{name: known.data[name] for name in names}}
        except READING as error:
            if graded:
                refusal = f"{place} of {path} has no answer to compare with, and no reward (--reward) is given"
                raise AppError(str(refused(refusal, row, error))) from error
            gold, data = (said.strip() if isinstance(said := row.get("answer"), str) else ""), dict(row)
        run_with = [str(row[name]) for name in RUN_COLUMNS if isinstance(row.get(name), dict)]
        id = identity(*dict.fromkeys([question, *run_with]), gold)  # without a question, the inputs are one
        if id in found and str(found[id].data) != str(data):
            id += identity(str(data))  # the reward reads all columns
        found.setdefault(id, Task(id=id, question=question, gold=gold, data=data))
    return list(found.values())


def inputs(task: Task) -> Any:
    """Return the graph's input for a task."""
    given = task.data.get("inputs")
    return given if isinstance(given, dict) else {"messages": [HumanMessage(task.question)]}


def compare(task: Task, state: Any) -> float | None:
    """Return 1 if the answer is the task's, else 0; None if that cannot be decided by rule."""
    score = reading([("", _as_evaluated(task.data))])[1](task, final_text(state))
    return None if score.decision == Decision.UNDECIDED else float(score.decision == Decision.CORRECT)


def _as_evaluated(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row as evaluation reads it: without empty options, and without those beside `inputs`."""
    asked = not isinstance(row.get("inputs"), dict)
    return {name: value for name, value in row.items() if name not in ("options", "choices") or (asked and value)}


def run_config(given: Given) -> RunnableConfig:
    """Return LangChain's config that is given as a whole, or as its `configurable`. Raises AppError."""
    found = _settings(given, "config")
    known = not found or found.keys() & RunnableConfig.__annotations__
    return cast("RunnableConfig", found if known else {"configurable": found})


def _settings(given: Given, name: str) -> dict[str, Any]:
    """Return an object that is given itself, as JSON or as a file of it. Raises AppError."""
    if not isinstance(given, str):
        return dict(given)
    try:
        text = given if not given or given.lstrip().startswith("{") else Path(given).read_text("utf-8")
    except (OSError, ValueError) as error:
        raise AppError(f"the {name} is neither JSON nor a file that can be read ({error})", code="bad_json") from error
    if (found := object_from_json(text or "{}")) is None:
        raise AppError(f"the {name} is no JSON object", code="bad_json")
    return found


def _function(name: str, role: str) -> Callable[..., Any]:
    try:
        found = named_object(name)
    except NamedObjectError as error:
        raise AppError(f"the {role} cannot be loaded: {error}") from error
    if not callable(found):
        raise AppError(f"the {role} '{name}' is a {type(found).__name__}, not a function")
    return found
