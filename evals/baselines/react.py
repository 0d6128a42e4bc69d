"""A single policy in a tool-calling loop: ReAct, or Search-R1 and ToRL if it is trained.

In each turn, the policy reads the question and all tool results, and writes the next tool call with its arguments, or
the answer. It is the planner's model in the node `planner`, so that it is configured and trained like AgentFlow's
planner. The conversation is append-only and derived from the memory.

Source: S. Yao et al., "ReAct: Synergizing Reasoning and Acting in Language Models", ICLR 2023.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.tools import BaseTool
from langgraph.runtime import Runtime

from agentflow.evals.baselines.rag import PASSAGES
from agentflow.evals.baselines.run import ask_in_time, graph_of
from agentflow.graph.agent import Agent
from agentflow.graph.context import Context
from agentflow.graph.models.providers import Profile
from agentflow.graph.state import Action, Plan, State, Turn, Verdict
from agentflow.graph.toolbox import Toolbox
from agentflow.nodes import answer_text, executor
from agentflow.nodes.demonstrations import ANSWERED, OPERA, ROLLS, SIGNS, TRIED
from agentflow.nodes.planner import EXAMPLES, chosen_tool, describe_tools
from agentflow.nodes.reply_parsing import spoken
from agentflow.tools.card import ToolCard
from agentflow.tools.result import ErrorClass, ToolResult
from agentflow.tools.run import run_tool

PROMPT = """\
You answer a question with tools, one call at a time.

Tools:
{tools}

Write either a call, its first line Tool: and the tool's name, then the arguments as a JSON object, or a program in a \
```python block; or, when you know it, the answer, as Answer: and the answer alone."""

_STEPS = {question: f"{step}\nTool: {tool}\n" for question, (tool, step, _) in EXAMPLES.items()}
RUNS = {
    ROLLS: (f"{_STEPS[ROLLS]}{EXAMPLES[ROLLS][2]}", "Result: 378.0", ANSWERED[ROLLS][1]),
    SIGNS: (f"{_STEPS[SIGNS]}{EXAMPLES[SIGNS][2]}", f"Result: {TRIED.action.result.output}", ANSWERED[SIGNS][1]),
    OPERA: (
        f'{_STEPS[OPERA]}{{"query": "{EXAMPLES[OPERA][2]}"}}',
        f"Result: {PASSAGES[0]}",
        'Find out where Jørn Utzon was born.\nTool: wikipedia_search\n{"query": "Jørn Utzon"}',
        f"Result: {PASSAGES[1]}",
        "He was born in Copenhagen.\nAnswer: Denmark",
    ),
}
"""Example runs, the same questions as AgentFlow's planner sees: what follows on the question."""

_CALL = re.compile(r"^[ \t>*_#-]*(?:tool|action)[*_]*[ \t]*:[*_ \t]*", re.IGNORECASE | re.MULTILINE)
_PROGRAM = re.compile(r"^[ \t]*```python\b", re.IGNORECASE | re.MULTILINE)
_ANSWER = re.compile(r"^[ \t>*_#-]*(?:final )?answer[*_]*[ \t]*:|<answer>", re.IGNORECASE | re.MULTILINE)
_INVENTED = re.compile(r"^(?:##+)?[ \t>*_-]*(?:result|observation)[*_]*[ \t]*:", re.IGNORECASE | re.MULTILINE)
"""The start of a line that a model writes in place of a tool's result; `# Result:` is a comment in a program."""


def messages(
    question: str, memory: Sequence[Turn], cards: Mapping[str, ToolCard], profile: Profile = "paper"
) -> list[BaseMessage]:
    """Return the policy's conversation so far."""
    shown = [asked for asked, (tool, *_) in EXAMPLES.items() if tool in cards] if profile == "lean" else []
    runs = [(f"Question: {asked}", *RUNS[asked]) for asked in shown]
    conversation: list[BaseMessage] = [
        SystemMessage(PROMPT.format(tools=describe_tools(cards.values(), profile))),
        *(AIMessage(text) if place % 2 else HumanMessage(text) for run in runs for place, text in enumerate(run)),
        HumanMessage(f"Question: {question}"),
    ]
    for turn in memory:
        conversation += [AIMessage(_until_its_result(turn.plan.text)), HumanMessage(turn.action.result.describe())]
    return conversation


def _until_its_result(text: str) -> str:
    """Return a reply without the answer that it invents after a call: shown again, it outweighs the result."""
    call = _CALL.search(text)
    end = text.rfind("```") if _PROGRAM.search(text) else call.end() if call else -1
    answer = _ANSWER.search(text, end) if end >= 0 else None
    return text[: answer.start()].rstrip() if answer else text


def read_answer(text: str, cards: Mapping[str, ToolCard], memory: Sequence[Turn] = ()) -> str | None:
    """Return the answer in a reply; None if there is none, or if it precedes the result of a call. Never raises.

    A call before it counts unless it is the last one in memory, which small models write again beside their answer.
    """
    reply = spoken(text)
    calls = (_CALL, _PROGRAM) if "python_coder" in cards else (_CALL,)
    if (answer := _ANSWER.search(reply)) is None:
        return None
    if any(call.search(reply, 0, answer.start()) for call in calls):
        plan, arguments = read_call(text, cards)
        if not memory or (plan.tool, arguments) != (memory[-1].plan.tool, memory[-1].action.arguments):
            return None
    return answer_text.parse(reply)


def read_call(text: str, cards: Mapping[str, ToolCard]) -> tuple[Plan, dict[str, Any] | None]:
    """Return the first tool call of a reply: a plan with its tool, and its arguments, None if they cannot be parsed.

    Text after a tool result that the model invented is ignored. Never raises.
    """
    reply = spoken(text)
    thought, call, rest = _partition(_CALL, reply)
    if not call and "python_coder" in cards and (program := executor.parse(reply, cards["python_coder"])):
        return Plan(text=text, tool="python_coder"), program  # the prompt allows a program alone
    if not call:
        problem = "neither a call nor an answer" if text.strip() else "the reply was empty"
        return Plan(text=text, error=ErrorClass.BAD_PLAN, problem=problem), None
    rest = _partition(_INVENTED, _partition(_CALL, rest)[0])[0]
    name, problem = chosen_tool(rest.partition("\n")[0].partition("{")[0], cards)
    if problem:
        return Plan(text=text, tool=name, error=ErrorClass.UNKNOWN_TOOL, problem=problem), None
    return Plan(text=text, sub_goal=thought.strip(), tool=name), executor.parse(rest, cards[name])


async def act(text: str, toolbox: Toolbox, context: Context, seconds: float) -> tuple[Plan, Action]:
    """Parse the tool call in a reply and make it within `seconds`. An error is returned as the call's result."""
    available = await toolbox.available_tools(context)
    plan, arguments = read_call(text, available.cards)
    if plan.error:
        result = ToolResult.failed(plan.error, plan.problem)
    elif arguments is None:
        result = ToolResult.failed(ErrorClass.BAD_ARGUMENTS, "the arguments could not be read")
    else:
        result = await run_tool(available.tools[plan.tool], arguments, min(executor.TOOL_SECONDS, seconds))
    share = context.memory_tokens // context.max_turns
    return plan, Action(arguments=arguments or {}, result=result.shortened(share))


def build_graph(tools: Sequence[BaseTool | str] = ()) -> Agent:
    """Return the compiled graph; `tools` are available in addition to the context's."""
    toolbox = Toolbox(tools)

    async def policy(state: State, runtime: Runtime[Context]) -> dict[str, Any]:
        """Return the reply as a plan, the answer, or a status if turns or time have run out."""
        context = Context.of(runtime)
        available = await toolbox.available_tools(context)
        profile = context.profile_of("planner")
        conversation = messages(state.question, state.memory, available.cards, profile)
        reply = await ask_in_time(context, "planner", conversation, state.seconds_left())
        if reply is None:
            return {"status": "out_of_time"}
        if (answer := read_answer(reply, available.cards, state.memory)) is not None:
            return {"status": "answered", "answer": answer, "messages": [AIMessage(reply)]}
        return {"status": "out_of_turns"} if len(state.memory) >= context.max_turns else {"plan": Plan(text=reply)}

    async def call(state: State, runtime: Runtime[Context]) -> dict[str, Any]:
        """Make the tool call, and return the finished turn."""
        text = state.plan.text if state.plan else ""
        plan, action = await act(text, toolbox, Context.of(runtime), state.seconds_left())
        verdict = Verdict(analysis="", signal="continue")
        return {"memory": [Turn(turn=len(state.memory) + 1, plan=plan, action=action, verdict=verdict)]}

    return graph_of("react", planner=policy, executor=call)


def _partition(pattern: re.Pattern[str], text: str) -> tuple[str, str, str]:
    """Split `text` at the first match, like `str.partition`."""
    match = pattern.search(text)
    return (text[: match.start()], match.group(), text[match.end() :]) if match else (text, "", "")
