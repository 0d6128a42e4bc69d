"""The files that a graph needs to be trained, to be filled in: what its input is, and how its result is reached."""

import inspect
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from langchain_core.runnables import RunnableSequence
from langgraph.pregel import Pregel

TASKS, REWARD = Path("tasks.jsonl"), Path("reward.py")
ROWS = 3

FILLED_IN = {str: "...", int: 1, float: 1.0, bool: True, list: [], dict: {}, tuple: [], set: []}
"""Placeholder for a field of each type; None for all other types."""

PLAY = '''

async def play(graph, task):
    """Call the graph with a task, and return its result."""
    return await graph.ainvoke(task.question)
'''
ANSWER = '''

def answer(task, asked):
    """Return the answer to an interrupt, of which `asked` is the value."""
    return {}
'''
APPROVED = '{"decisions": [{"type": "approve"} for request in asked["action_requests"]]}'
"""Reply to the interrupt of LangChain's HumanInTheLoopMiddleware: approve every call."""


@dataclass(frozen=True)
class GraphFacts:
    """Schemas, tools and interrupts of a graph, read without running it."""

    inputs: dict[str, Any] | None = None
    """Fields of the input, filled in; none for a graph that takes messages. None: what it takes cannot be told."""
    others: tuple[str, ...] = ()
    """Fields of the input beside its messages."""
    result: str = ""
    """The field of the final state that holds the result; "" if the state is the result."""
    context: dict[str, Any] = field(default_factory=dict)
    """Fields of the context that have no default, filled in."""
    tools: tuple[str, ...] = ()
    interrupts: tuple[str, ...] = ()
    """Nodes and tools that interrupt the run."""
    keeps: tuple[str, ...] = ()
    """Which of store, checkpointer and cache the graph was compiled with."""

    @property
    def options(self) -> str:
        """The options of `try` and `train`, for the files of `write`."""
        given = ["--tasks", str(TASKS), "--reward", f"{REWARD.stem}:score"]
        given += [f"answer={REWARD.stem}:answer"] if self.interrupts else []
        return " ".join(given + ([f"rollout={REWARD.stem}:play"] if self.inputs is None else []))


def facts(graph: Any) -> GraphFacts:
    """Look at a graph."""
    if isinstance(graph, RunnableSequence):
        return replace(facts(graph.first), result="")
    if not isinstance(graph, Pregel):
        return GraphFacts()
    builder = getattr(graph, "builder", None)
    result, others = "", tuple[str, ...]()
    inputs: dict[str, Any] | None = {} if builder or graph.get_input_jsonschema().get("type") != "string" else None
    if builder:
        taken, given = (_fields(builder, schema) for schema in (builder.input_schema, builder.output_schema))
        others = tuple(name for name in taken if name != "messages") if "messages" in taken else ()
        inputs = {} if "messages" in taken else {name: _filled_in(kind) for name, kind in taken.items()}
        own = [name for name in given if name not in taken] or [*given]
        result = "messages" if "messages" in given else next((n for n in own if given[n] is str), own[0] if own else "")
    kept = {"store": graph.store, "checkpointer": graph.checkpointer, "cache": graph.cache}
    parts = [*_parts(graph)]
    return GraphFacts(
        inputs,
        others,
        result,
        _needed(getattr(graph, "context_schema", None)),
        tools=tuple(name for name, tool, _ in parts if tool),
        interrupts=tuple(dict.fromkeys(name for name, _, interrupts in parts if interrupts)),
        keeps=tuple(name for name, value in kept.items() if value),
    )


def rows(found: GraphFacts) -> list[dict[str, Any]]:
    """Return tasks to fill in."""
    extra = {"context": found.context} if found.context else {}
    return [
        {
            **({"inputs": found.inputs} if found.inputs else {"question": f"Question {number}?"}),
            "answer": f"the answer to question {number}",
            **extra,
        }
        for number in range(1, ROWS + 1)
    ]


def reward_text(found: GraphFacts) -> str:
    """Return the module of the reward, and of what else the graph needs."""
    said = {"": "str(state)", "messages": 'state["messages"][-1].text'}.get(
        found.result, f'str(state.get("{found.result}") or "")'
    )
    answer = APPROVED if any(name.startswith("HumanInTheLoop") for name in found.interrupts) else "True"
    text = f'''"""What the agent's work is worth."""


def score(task, state) -> float:
    """Return 1 for a right result, 0 for a wrong one, or what lies between.

    `task.gold` is the column `answer`, `task.data` holds all columns, and `state` is the graph's final state.
    """
    said = {said}
    return float(task.gold.casefold() in said.casefold())
'''
    return text + (PLAY if found.inputs is None else "") + (ANSWER.format(answer) if found.interrupts else "")


def write(found: GraphFacts, folder: Path) -> dict[Path, bool]:
    """Write the files that are not there yet. Return each, and whether it was written. Raises OSError."""
    texts = {
        TASKS: "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows(found)),
        REWARD: reward_text(found),
    }
    written = {}
    for name, text in texts.items():
        try:
            with (folder / name).open("x", encoding="utf-8") as file:
                file.write(text)
            written[name] = True
        except FileExistsError:
            written[name] = False
    return written


def _fields(builder: Any, schema: Any) -> dict[str, Any]:
    """Return the types of a schema's fields."""
    try:
        hints: Mapping[str, Any] = get_type_hints(schema)
    except (NameError, TypeError):
        hints = {}
    return {name: hints.get(name) for name in builder.schemas.get(schema, hints)}


def _filled_in(kind: Any) -> Any:
    options = [one for one in get_args(kind) if one is not type(None)]
    if get_origin(kind) in (Union, UnionType) and options:
        return _filled_in(options[0])
    return FILLED_IN.get(get_origin(kind) or kind)


def _needed(schema: Any) -> dict[str, Any]:
    """Return the fields of a context's schema that have no default, filled in."""
    if schema is None or issubclass(schema, dict):
        return {}
    hints, taken = get_type_hints(schema), inspect.signature(schema).parameters.values()
    return {
        one.name: _filled_in(hints.get(one.name)) for one in taken if one.default is one.empty and one.name in hints
    }


def _parts(graph: Any) -> Iterator[tuple[str, bool, bool]]:
    """Yield the nodes and tools of a graph and of its subgraphs: name, whether it is a tool, and may interrupt."""
    paused = {*graph.interrupt_before_nodes, *graph.interrupt_after_nodes}
    for name, node in graph.nodes.items():
        tools = getattr(node.bound, "tools_by_name", {})
        for tool, made in tools.items():
            yield tool, True, _interrupts(made)
        if name != "__start__" and not tools:
            yield name, False, name in paused or _interrupts(node.bound)
    for _, inner in graph.get_subgraphs():
        if isinstance(inner, Pregel):
            yield from _parts(inner)


def _interrupts(part: Any) -> bool:
    """Return whether a function of a node or a tool calls `interrupt`."""
    for function in (getattr(part, name, None) for name in ("func", "afunc", "coroutine")):
        called = inspect.unwrap(function.func if isinstance(function, partial) else function) if function else None
        if "interrupt" in getattr(getattr(called, "__code__", None), "co_names", ()):
            return True
    return False
