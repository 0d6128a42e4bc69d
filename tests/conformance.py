"""The shapes of agents that people have, each with the small agent of ours that stands for it, and a policy for all."""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentflow.graph.run.task import Task
from agentflow.rl.policy.chat import ChatRequest
from agentflow.rl.policy.schemas import example
from tests.pages import ROOT

ROLLOUTS = 32
WORDS = [f"w{number:02}q" for number in range(ROLLOUTS)]
"""A word for each task, by which its texts are told from those of the others."""


def call(tool: Mapping[str, Any], word: str, **arguments: Any) -> str:
    """A call of a tool as Qwen2.5 and Qwen3 write it."""
    known = tool["function"]
    schema = known.get("parameters", {})
    given = example({"type": "object", **schema}, word)
    given |= {name: value for name, value in arguments.items() if name in schema.get("properties", {})}
    return f"<tool_call>\n{json.dumps({'name': known['name'], 'arguments': given})}\n</tool_call>"


Says = Callable[[ChatRequest, str, int], str]
"""What the policy says to a request, given the word of its task and the number of its reply in the rollout."""


def calling(most: int | None = 1, replies: int = 12, tools: Collection[str] = (), **arguments: Any) -> Says:
    """Call each tool that is offered (of `tools`), so many in a reply, or what is asked for; at last, answer."""

    def says(request: ChatRequest, word: str, number: int) -> str:
        made = {call["function"]["name"] for message in request.messages for call in message.get("tool_calls", ())}
        offered = {tool["function"]["name"]: tool for tool in request.tools}
        left = [tool for name, tool in offered.items() if name not in made and name in (tools or offered)]
        if request.tool_choice in offered:
            left = [offered[request.tool_choice]]
        elif request.tool_choice == "required":
            left = left or list(request.tools)
        elif number + 1 >= replies:
            left = []
        return "\n".join(call(tool, word, **arguments) for tool in left[:most]) or f"It is {word}."

    return says


one_by_one = calling()


def endless(request: ChatRequest, word: str, number: int) -> str:
    return call(request.tools[0], word)


def malformed(request: ChatRequest, word: str, number: int) -> str:
    """In every other task, the first reply has a call that cannot be read."""
    return one_by_one(request, word, number) if number or WORDS.index(word) % 2 else "<tool_call>\n{oh no"


def surplus(request: ChatRequest, word: str, number: int) -> str:
    """A call with an argument that the tool does not have."""
    made = {"name": request.tools[0]["function"]["name"], "arguments": {"word": word, "required": []}}
    return f"<tool_call>\n{json.dumps(made)}\n</tool_call>"


def weak(request: ChatRequest, word: str, number: int) -> str:
    """Calls without arguments, of another type, of no tool or without an end, and then text."""
    names = [tool["function"]["name"] for tool in request.tools] or ["nothing"]
    fields = [field for tool in request.tools[:1] for field in tool["function"].get("parameters", {})["properties"]]
    given: list[Any] = [{}, {field: [[None]] for field in fields}]
    calls = [json.dumps({"name": names[0], "arguments": one}) for one in given]
    calls += [json.dumps({"name": "nothing", "arguments": {"word": word}}), "{oh no"]
    end = "\n</tool_call>" if number != 3 else ""
    return f"<tool_call>\n{calls[number]}{end}" if number < len(calls) else f"It is {word}."


def code(request: ChatRequest, word: str, number: int) -> str:
    return f"```python\nprint('{word}')\n```" if number < 2 else f"It is {word}."


@dataclass(frozen=True)
class Shape:
    """An agent, and how it is run."""

    app: str
    calls: int
    """Model calls of a rollout that ends well."""
    asks: str = ""
    """Field of the graph's input that gets the question, if that has no messages."""
    options: Mapping[str, Any] = field(default_factory=dict)
    says: Says = one_by_one
    ends: frozenset[str] = frozenset({"ok"})
    needs: str = ""
    """Package that it needs, and that an environment may lack."""


def _of(module: str, **rest: Any) -> Callable[..., Shape]:
    return lambda name, calls, **given: Shape(f"tests.agents.{module}:{name}", calls, **rest, **given)


_calling, _state, _loop, _exported = _of("calling"), _of("states"), _of("loops"), _of("exported")
_habit = _of("habits")
_sync, _waits = _of("sync", asks="question"), _of("interrupting", asks="question")
_FAILED = frozenset({"policy_failed"})
_LIMIT = {"config": {"recursion_limit": 9}}


def _form(name: str) -> Shape:
    return Shape("tests.agents.structured:graph", 1, options={"form": name})


def _middleware(name: str, calls: int, **options: Any) -> Shape:
    return Shape(
        "tests.agents.middleware:agent", calls, options={"middleware": name, **options}, says=calling(replies=4)
    )


def _package(name: str, calls: int, needs: str, says: Says = one_by_one) -> Shape:
    return Shape(f"tests.agents.packages:{name}", calls, says=says, needs=needs)


_hands_over = calling(tools=("task", "add", "multiply"), subagent_type="calculator")

SHAPES: dict[str, Shape] = {
    "create_agent, async tools": _calling("async_tools", 2),
    "create_agent, sync tools": _calling("sync_tools", 2),
    "several calls in a reply": _calling("by_hand", 2, says=calling(None)),
    "parallel_tool_calls=False": _calling("alone", 3, says=calling(None)),
    "plain def node, ToolNode": _calling("by_hand", 3),
    "Command from nodes and tools": _calling("commands", 2),
    "other tools in each call": _calling("one_at_a_time", 3),
    "tool_calls[0] of any reply": _calling("indexed", 1, says=malformed, ends=_FAILED | {"ok"}),
    "function(**arguments) of any call": _calling("passing", 1, says=surplus, ends=_FAILED),
    "a loop up to its limit": _calling("by_hand", 5, says=endless, ends=_FAILED, options=_LIMIT),
    "summary with RemoveMessage": _calling("summarising", 3),
    "dataclass state": _state("dataclass_state", 1),
    "pydantic state": _state("pydantic_state", 1, asks="topic"),
    "TypedDict without messages, gather": _state("typed_dict", 4, asks="topic"),
    "nested subgraphs": _state("nested", 5, asks="topic"),
    "streams in a node": _state("streaming", 1),
    "with_retry": _state("with_retry", 1, says=malformed),
    "RetryPolicy": _state("retry_policy", 1, says=malformed),
    "context_schema, runtime.store": Shape("tests.agents.remembering:bare", 1),
    "store, saver and cache at compile time": Shape("tests.agents.remembering:stored", 1),
    "Send to 16 sync branches": _sync("fan_out", 16),
    "openai client, blocking": _sync("openai", 1),
    "openai client, tools, model_dump(exclude_none=True)": _loop("blocking", 2),
    "openai client, stream": _loop("streamed", 1),
    "code in the text": _loop("code", 3, says=code),
    "with_structured_output": _form("default"),
    "... json_mode": _form("json_mode"),
    "... function_calling": _form("function_calling"),
    "create_agent, ProviderStrategy": _form("agent"),
    "create_agent, ToolStrategy": Shape("tests.agents.structured:by_tool", 1),
    "openai's .parse": _form("parse"),
    "interrupt()": _waits("one", 1, options={"answer": "tests.agents.interrupting:reply"}),
    "interrupt_before": _waits("before", 1, options={"answer": "tests.agents.interrupting:reply"}),
    "HumanInTheLoopMiddleware": _middleware("person", 3, answer="tests.agents.middleware:approve"),
    "SummarizationMiddleware": _middleware("summarization", 5),
    "ModelFallbackMiddleware": _middleware("fallback", 3),
    "TodoListMiddleware": _middleware("todo", 4),
    "ModelRetryMiddleware": _middleware("retry", 3),
    "ContextEditingMiddleware": _middleware("editing", 3),
    "LLMToolSelectorMiddleware": _middleware("selector", 4),
    "@entrypoint": _exported("entered", 1),
    "a graph that is not compiled": _exported("builder", 1),
    "async def factory": _exported("made_later", 1),
    "@asynccontextmanager factory, as for MCP": _exported("with_session", 1),
    "make_graph(config)": _exported("made_with", 1),
    "graph | parser": _exported("piped", 1),
    "path/file.py:graph": Shape(f"{ROOT}/tests/agents/exported.py:builder", 1),
    "a name in langgraph.json": Shape("mine", 1),
    "rollout=module:function": _exported("builder", 2, options={"rollout": "tests.agents.exported:play"}),
    "prompt | model | parser": _habit("piped", 1),
    "create_react_agent": _habit("react", 2),
    "asyncio.run in a plain node": _habit("in_a_loop", 1),
    "batch and RunnableParallel": _habit("in_batches", 4),
    "tasks of an @entrypoint": _habit("tasks", 3),
    "an agent in a tool": _habit("experts", 4),
    "interrupt() in a tool": _habit("asking", 2, options={"answer": "tests.agents.interrupting:reply"}),
    "deepagents": Shape("examples.agents.deep:agent", 5, says=_hands_over, needs="deepagents"),
    "langgraph-supervisor": Shape("examples.agents.supervisor:agent", 7, needs="langgraph_supervisor"),
    "langgraph-swarm": Shape("examples.agents.swarm:agent", 5, needs="langgraph_swarm"),
    "langgraph-codeact": _package("codeact", 3, "langgraph_codeact", code),
    "langmem": _package("langmem", 3, "langmem"),
    "trustcall": _package("trustcall", 1, "trustcall"),
}


def reward(task: Task, state: Any) -> float:
    """Differs between tasks. Raises AssertionError if the state is not the task's."""
    shown = repr(state)
    said = {word for word in WORDS if word in shown}
    assert said <= {task.gold}, f"the state of {task.gold} has {said}"
    return WORDS.index(task.gold) % 2
