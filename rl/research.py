"""AgentFlow's planner on free-text answers, as in the paper: search and mathematics, judged by a model."""

import json
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from agentflow.evals.judge import Judge
from agentflow.evals.scorers.exact import correct
from agentflow.evals.scorers.score import Decision
from agentflow.rl.planner import trainable
from agentflow.rl.trainable import AppError, Split, Task, Trainable


def research(
    train: str,
    test: str,
    judge: str,
    frozen: str,
    tools: Sequence[str] = ("base_generator", "python_coder", "google_search", "wikipedia_search"),
    max_turns: int = 3,
    max_tokens: int = 2048,
    nodes: Sequence[str] = ("planner",),
) -> Trainable:
    """The agent on the questions of two files.

    Args:
        train: Parquet or JSON lines with the columns question, result (accepted answers, joined by "; ") and source.
        test: The same, held out.
        judge: Model that decides on answers which are not literally one of the accepted ones.
        frozen: Model of the modules that do not learn.
        tools: What the planner may choose from.
        max_turns: Most planner turns of a rollout.
        max_tokens: Most tokens of one reply of the policy.
        nodes: The modules that learn; several share one policy.
    """
    files, decides = {"train": Path(train), "test": Path(test)}, Judge(judge)

    def tasks(split: Split, number: int) -> list[Task]:
        return [_task(split, position, row) for position, row in enumerate(_rows(files[split], number))]

    async def reward(task: Task, state: Any) -> float | None:
        answer = str(state["answer"])
        if any(correct(answer, gold) for gold in task.gold.split("; ")):
            return 1.0
        decision = await decides.decide(task.question, task.gold, answer)
        return None if decision == Decision.UNDECIDED else float(decision == Decision.CORRECT)

    settings = {"model": frozen, "max_turns": max_turns, "tools": list(tools)}
    return trainable("research", "agentflow", tasks, reward, nodes=nodes, max_tokens=max_tokens, settings=settings)


def _rows(path: Path, number: int) -> list[dict[str, Any]]:
    """The first `number` rows of a file. Raises AppError."""
    try:
        if path.suffix == ".parquet":
            from pyarrow import parquet

            return list(parquet.read_table(path).slice(0, number).to_pylist())
        with path.open(encoding="utf-8") as file:
            return [json.loads(line) for line in islice(file, number)]
    except (OSError, ValueError) as error:
        why = (isinstance(error, OSError) and error.strerror) or error
        raise AppError(
            f"{path} cannot be read ({why}); name a parquet or JSON-lines file with question, result and source"
        ) from error


def _task(split: Split, position: int, row: dict[str, Any]) -> Task:
    try:
        question, gold = str(row["question"]), str(row["result"])
    except KeyError as error:
        raise AppError(f"row {position} of the {split} file has no column {error}") from error
    return Task(id=f"{split}-{position}", question=question, gold=gold, family=str(row.get("source", "")))
