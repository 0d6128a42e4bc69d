"""The executor: from the planner's step to one validated tool call and its result (paper section 3.1, e^t).

The model writes arguments, never code that is run in this process. They are parsed as data and checked against the
tool's schema, and the tool runs under separate limits. A failure is an ordinary result.
"""

import ast
import asyncio
import json
import re
import time
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any
from uuid import uuid4

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.tools import BaseTool
from langgraph.errors import GraphBubbleUp
from langgraph.runtime import Runtime

from agentflow.graph.context import Context
from agentflow.graph.models.loading import ask
from agentflow.graph.models.providers import Profile
from agentflow.graph.models.structured import ReplyForm
from agentflow.graph.prompts import fill
from agentflow.graph.state import Action, PendingCall, Plan, State, Turn
from agentflow.graph.toolbox import Toolbox
from agentflow.nodes import approval
from agentflow.nodes.at_most_once import forget_answer, needs_mark, uncertain, was_paused
from agentflow.nodes.planner import given_input
from agentflow.nodes.reply_parsing import as_data, data_objects, literal_backslashes, parsed, spoken, unfence
from agentflow.tools.card import ToolCard
from agentflow.tools.redaction import cut
from agentflow.tools.result import ErrorClass, ToolResult
from agentflow.tools.run import run_tool

PROMPT = """\
You carry out one step with the tool {name}: {description}
{limits}Arguments:
{arguments}
{examples}Write the arguments of one call that does this step, as a JSON object and nothing else. \
A program may stand in a ```python block instead."""

LEAN = """\
You carry out one step towards the answer of a question, with the tool {name}: {description}
{limits}Arguments:
{arguments}
{examples}{form}"""

PROMPTS: dict[Profile, str] = {"paper": PROMPT, "lean": LEAN}

AS_JSON = "Write the arguments of one call that does this step, as a JSON object and nothing else."
AS_PROGRAM = (
    "Write one complete program that does this step and prints its result, in a ```python block and nothing else."
)

TOOL_SECONDS = 60.0
"""Time limit in seconds for one tool call, regardless of the run's remaining time."""

MAX_QUOTED = 160
"""Maximum number of characters shown of a reply that could not be parsed."""

MAX_SOURCES = 100
"""Maximum number of blocks and lines of a reply that are searched for a call."""

_BLOCK = re.compile(r"```([\w+-]*)[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL)
_WRAPPERS = ("arguments", "args", "parameters", "params", "input", "tool_input", "kwargs")


def messages(card: ToolCard, plan: Plan, prompt: str = PROMPT, *, question: str = "") -> list[BaseMessage]:
    """Return the executor's conversation: the tool, and the step to carry out with it; in the lean profile the
    question, too. A small model that sees a call that failed writes it again.
    """
    program = card.takes_program
    system = fill(
        prompt,
        name=card.name,
        description=card.description,
        limits=f"Limits: {card.limits}\n" if card.limits else "",
        arguments="\n".join(card.describe_arguments()),
        examples="" if program and question else "".join(f"Example: {line}\n" for line in card.examples_as_json()),
        form=AS_PROGRAM if program else AS_JSON,
    )
    known = f"\nContext: {plan.context}" if plan.context or not question else ""
    step = f"Sub-Goal: {plan.sub_goal}{known}"
    asked = f"Question: {question}\n" if question else ""
    return [SystemMessage(system), HumanMessage(f"{asked}{step}")]


def _failed_just_now(memory: Sequence[Turn], plan: Plan, arguments: dict[str, Any]) -> bool:
    """Return whether the last turn made this call, in vain."""
    last = memory[-1] if memory else None
    return bool(last and last.action.result.error and (last.plan.tool, last.action.arguments) == (plan.tool, arguments))


def parse(text: str, card: ToolCard) -> dict[str, Any] | None:
    """Return the arguments in `text` for a call of the tool, as JSON data, or None if there are none. Never raises.

    Accepted forms are, for a tool that takes a program, a fenced block or the program alone; a JSON object or a Python
    dict anywhere in the text, alone or wrapped as a tool call; a call written as `tool(name="value")`.
    """
    reply = spoken(text)
    takes_program = "code" in card.arguments.get("properties", {})
    programs = _programs(reply) if takes_program else []
    if complete := [program for program in programs if _is_program(program, card)]:
        return {"code": max(complete, key=len)}
    source = literal_backslashes(reply)
    for found in chain(data_objects(source), _calls(source, card)):
        if (arguments := _fitting(_unwrapped(found, card), card)) is not None:
            code = arguments.get("code")
            return {**arguments, "code": _bare_program(code)} if takes_program and isinstance(code, str) else arguments
    if programs:
        return {"code": max(programs, key=len)}
    return {"code": reply} if takes_program and _is_program(reply, card) else None


def _programs(reply: str) -> list[str]:
    """Return the programs in fenced blocks: those marked as Python, else those without a mark."""
    blocks = [(language.lower(), block.strip("\n")) for language, block in _BLOCK.findall(reply) if block.strip()]
    marked = [block for language, block in blocks if language in ("python", "python3", "py")]
    return marked or [block for language, block in blocks if not language]


def _is_program(source: str, card: ToolCard) -> bool:
    """Return whether `source` is valid Python that does something, other than to be data or a call of the tool."""
    tree = parsed(source)
    if tree is None or not any(isinstance(node, ast.Call) for node in ast.walk(tree)):
        return False
    return len(tree.body) > 1 or not any(_fitting(call, card) for call in _calls(source, card))


def _bare_program(code: str) -> str:
    """Return the program of an argument without a fence around it, and with line breaks if all are written as `\\n`."""
    if "\n" not in code and parsed(code) is None:
        broken = code.replace("\\n", "\n").replace('\\"', '"')
        code = broken if parsed(unfence(broken.strip())) else code
    return unfence(code.strip()) if code.lstrip().startswith("```") else code


def call_in(plan: Plan, card: ToolCard, question: str) -> dict[str, Any] | None:
    """Return the arguments of the call that the plan itself holds, or None if a model has to write them.

    A tool that takes the whole step sees the question, too, of which a small model's step leaves out most.
    """
    if card.takes_step:
        step = "" if plan.sub_goal.casefold() == question.casefold() else f"\n{plan.sub_goal}"
        return {card.takes_step: f"{question}\n{step}\n{plan.context}".strip()}
    if not card.arguments.get("properties") and not card.arguments.get("additionalProperties"):
        return {}
    given = given_input(plan.text)
    if not given:
        return None
    is_text = bool(card.text_argument) and not card.takes_program
    arguments = None if is_text and not given.startswith("{") else _whole_call(given, card)
    return {card.text_argument: given} if is_text and arguments is None else arguments


def reply_form(card: ToolCard) -> ReplyForm:
    """Return the form of a call of the tool: its arguments as a JSON object."""
    return ReplyForm("call", card.arguments, lambda text: _whole_call(text, card) is not None)


def _whole_call(text: str, card: ToolCard) -> dict[str, Any] | None:
    """Return the arguments in `text`, or None if one that the tool requires is not among them."""
    arguments = parse(text, card)
    required = set(card.arguments.get("required", ()))
    return arguments if arguments is not None and required <= arguments.keys() else None


def _unwrapped(found: dict[str, Any], card: ToolCard) -> dict[str, Any]:
    """Return the arguments inside `{"name": ..., "arguments": {...}}` and similar forms.

    They may be nested JSON text.
    """
    for key in _WRAPPERS:
        inner = found.get(key)
        if key in card.arguments.get("properties", {}):
            continue
        if isinstance(inner, str):
            inner = next(data_objects(inner), None)
        if isinstance(inner, dict):
            return inner
    return found


def _fitting(found: dict[str, Any], card: ToolCard) -> dict[str, Any] | None:
    """Return the entries of `found` that are arguments of the tool, or None if there are none.

    Case is ignored where the name in the tool's own spelling is absent: a tool may have both `n` and `N`.
    """
    own = card.arguments.get("properties", {})
    if not own or (not found and not card.arguments.get("required")):
        return found
    absent = {_plain_name(name): name for name in own if name not in found}
    names = {key: key if key in own else absent.get(_plain_name(key)) for key in found}
    return {name: found[key] for key, name in names.items() if name is not None} or None


def _calls(reply: str, card: ToolCard) -> Iterator[dict[str, Any]]:
    """Yield the arguments of each call with literal arguments, in a block or on a separate line. Nothing is run."""
    own = (_plain_name(card.name), "tool", "execute", "run", "invoke", "call")
    sources = chain((block for _, block in _BLOCK.findall(reply)), reply.splitlines())
    for source in islice((source for source in sources if "(" in source), MAX_SOURCES):
        tree = parsed(source.strip(" \t`"))
        for call in ast.walk(tree) if tree else ():
            if not isinstance(call, ast.Call):
                continue
            name = _plain_name(getattr(call.func, "attr", getattr(call.func, "id", "")))
            if call.args and name not in own:
                continue  # the meaning of its positional arguments is unknown
            try:
                named = {keyword.arg or "": as_data(keyword.value) for keyword in call.keywords}
                yield dict(zip(card.arguments.get("properties", {}), map(as_data, call.args), strict=False)) | named
            except ValueError:
                continue


def _plain_name(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.lower())


def conversation_of(state: State, context: Context, plan: Plan, card: ToolCard) -> list[BaseMessage]:
    """Return the executor's conversation in a run."""
    profile = context.profile_of("executor")
    prompt = context.prompts.get("executor", PROMPTS[profile])
    return messages(card, plan, prompt, question=state.question if profile == "lean" else "")


class Executor:
    """The node that writes the call of the planned step, has it approved if required, and runs it.

    The node repeats while `State.pending_call` holds a call. Each step that a person or a crash may interrupt begins
    with a checkpoint. A resumed run therefore repeats the question or finds the mark, and does not repeat the model
    call.
    """

    def __init__(self, toolbox: Toolbox) -> None:
        self.toolbox = toolbox
        self._marks: set[str] = set()
        """Marks that this process has written and not used (`at_most_once`)."""

    async def __call__(self, state: State, runtime: Runtime[Context]) -> dict[str, Any]:
        """Return the action, or the arguments of a call that waits for approval or has a mark."""
        context, plan = Context.of(runtime), state.plan
        if plan is None:
            raise RuntimeError("the executor runs after the planner")
        if plan.error:
            return _done({}, ToolResult.failed(plan.error, plan.problem))
        available = await self.toolbox.available_tools(context)
        tool = available.tools.get(plan.tool)
        if tool is None:  # planned before a pause, since when its server has become unavailable
            return _done({}, ToolResult.failed(ErrorClass.TOOL_ERROR, f"{plan.tool} cannot be used any more"))
        card, asks = available.cards[plan.tool], approval.is_asked_for(context, plan.tool)
        call = state.call
        if call is None:
            return await self._propose(context, state, plan, tool, card, asks)
        if not call.mark:
            return await self._after_approval(state, call, tool, card)
        if call.mark in self._marks or await was_paused():
            return await self._call_marked(state, call, tool)
        if asks:
            return _pending(PendingCall(arguments=call.arguments, plan=plan, since=time.time(), interrupted=True))
        return _done(call.arguments, uncertain(tool.name))

    async def _propose(
        self, context: Context, state: State, plan: Plan, tool: BaseTool, card: ToolCard, asks: bool
    ) -> dict[str, Any]:
        try:
            async with asyncio.timeout(state.seconds_left()):
                reply = await self._write(context, state, plan, card)
        except TimeoutError:
            return _done(
                {}, ToolResult.failed(ErrorClass.TIMEOUT, "the run was out of time before the call was written")
            )
        arguments = parse(reply, card)
        if arguments is None:
            problem = f"the arguments could not be read: {_one_line(reply)}"
            return _done({}, ToolResult.failed(ErrorClass.BAD_ARGUMENTS, problem))
        if asks:
            return _pending(PendingCall(arguments=arguments, plan=plan, since=time.time()))
        return await self._call(state, plan, tool, card, arguments)

    async def _write(self, context: Context, state: State, plan: Plan, card: ToolCard) -> str:
        """Return the model's reply with the call, or the call itself where it is the plan's step in its own words."""
        if context.profile_of("executor") == "lean" and (arguments := call_in(plan, card, state.question)) is not None:
            if not _failed_just_now(state.memory, plan, arguments):
                return json.dumps(arguments)
            plan = plan.model_copy(update={"context": ""})
        return await ask(context, "executor", conversation_of(state, context, plan, card), reply_form(card))

    async def _after_approval(self, state: State, call: PendingCall, tool: BaseTool, card: ToolCard) -> dict[str, Any]:
        decided = approval.ask_person(call, len(state.memory) + 1, tool)
        await forget_answer()
        # The wait for a person does not count towards the run's time.
        deadline = state.deadline + time.time() - call.since
        if isinstance(decided, ToolResult):
            return {**_done(call.arguments, decided), "deadline": deadline}
        called = await self._call(state.model_copy(update={"deadline": deadline}), call.plan, tool, card, decided)
        return {**called, "deadline": deadline}

    async def _call(
        self, state: State, plan: Plan, tool: BaseTool, card: ToolCard, arguments: dict[str, Any]
    ) -> dict[str, Any]:
        """Make the call, or leave a mark first if it must not be repeated."""
        if needs_mark(card):
            mark = uuid4().hex
            self._marks.add(mark)
            return _pending(PendingCall(arguments=arguments, plan=plan, mark=mark))
        return await _run(tool, arguments, state)

    async def _call_marked(self, state: State, call: PendingCall, tool: BaseTool) -> dict[str, Any]:
        self._marks.discard(call.mark)
        try:
            called = await _run(tool, call.arguments, state)
        except GraphBubbleUp:
            self._marks.add(call.mark)  # the tool itself asks a person, and is called again with the answer
            raise
        await forget_answer()
        return called


async def _run(tool: BaseTool, arguments: dict[str, Any], state: State) -> dict[str, Any]:
    return _done(arguments, await run_tool(tool, arguments, min(TOOL_SECONDS, state.seconds_left())))


def _pending(call: PendingCall) -> dict[str, Any]:
    return {"pending_call": call, "action": None}


def _done(arguments: dict[str, Any], result: ToolResult) -> dict[str, Any]:
    return {"action": Action(arguments=arguments, result=result), "pending_call": None}


def _one_line(text: str) -> str:
    return json.dumps(cut(" ".join(text.split()), MAX_QUOTED), ensure_ascii=False)
