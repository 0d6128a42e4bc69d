"""The files that a graph needs to be trained, to be filled in: its tasks, and the reward of a result."""

import inspect
import json
from pathlib import Path
from typing import Any, cast, get_origin, get_type_hints

from langchain_core.runnables import RunnableSequence

TASKS, REWARD = Path("tasks.jsonl"), Path("reward.py")
ROWS = 3
FILL_IN = "..."
BY_TYPE: dict[Any, Any] = {list: [FILL_IN], dict: {}, int: 1, float: 1.0, bool: True}
"""Values of fields of these types; all others are texts."""

TEMPLATE = '''"""The reward of a run of the agent."""


def score(task, state) -> float:
    """Return 1 for a right result, 0 for a wrong one, or what lies between.

    `task.gold` is the column `answer`, `task.data` holds all columns, and `state` is the graph's final state.
    """
    said = {said}
    right = [task.gold, *task.data.get("aliases", [])] if task.gold else []
    return float(any(one.casefold() in said.casefold() for one in right))


def answer(task, asked):
    """Return the answer to an interrupt, of which `asked` is the value: here, every tool call is approved.

    A graph that interrupts needs the option answer=reward:answer.
    """
    return {{"decisions": [{{"type": "approve"}} for _ in asked["action_requests"]]}}
'''


def rows(graph: Any) -> list[dict[str, Any]]:
    """Return tasks to fill in: a question, or the fields of the graph's input; and what its context needs."""
    first = graph.first if isinstance(graph, RunnableSequence) else graph
    needed = dict.fromkeys(_needed(getattr(first, "context_schema", None)), FILL_IN)
    return [
        {
            **_asked(first, f"Question {number}?"),
            "answer": f"the answer to question {number}",
            **({"context": needed} if needed else {}),
        }
        for number in range(1, ROWS + 1)
    ]


def _asked(graph: Any, question: str) -> dict[str, Any]:
    """Return the columns that a graph is run with. A state with messages may have any fields beside them."""
    taken, builder = _fields(graph, "input_schema"), cast(Any, getattr(graph, "builder", None))
    if not taken or ("messages" in taken and (len(taken) == 1 or builder.input_schema is builder.state_schema)):
        return {"question": question}
    types = get_type_hints(builder.input_schema)
    inputs = {name: BY_TYPE.get(get_origin(types.get(name)) or types.get(name), FILL_IN) for name in taken}
    return {"inputs": inputs | ({"messages": [{"role": "user", "content": question}]} if "messages" in taken else {})}


def reward_text(graph: Any) -> str:
    """Return the module of the reward."""
    given, taken = _fields(graph, "output_schema"), _fields(graph, "input_schema")
    own = [name for name in given if name not in taken] or given
    said = f'str(state.get("{own[-1]}"))' if own else "str(state)"
    return TEMPLATE.format(said='state["messages"][-1].text' if "messages" in given else said)


def write(graph: Any, folder: Path) -> dict[Path, bool]:
    """Write the files that are not there yet. Return each, and whether it was written. Raises OSError."""
    tasks = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows(graph))
    written = {}
    for name, text in ((TASKS, tasks), (REWARD, reward_text(graph))):
        try:
            with (folder / name).open("x", encoding="utf-8") as file:
                file.write(text)
            written[name] = True
        except FileExistsError:
            written[name] = False
    return written


def _fields(graph: Any, schema: str) -> list[str]:
    """Return the fields of a graph's schema; none where the graph has no schemas."""
    builder = getattr(graph, "builder", None)
    return list(builder.schemas[getattr(builder, schema)]) if builder else []


def _needed(schema: Any) -> list[str]:
    """Return the fields of a context's schema that have no default."""
    if schema is None or issubclass(schema, dict):
        return []
    return [one.name for one in inspect.signature(schema).parameters.values() if one.default is one.empty]
