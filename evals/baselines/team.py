"""A static team like AutoGen's round-robin chats: a planner, an assistant with tools and a critic.

They write in turn in one shared conversation until the critic approves an answer. None of them is trained, the order is
fixed, and the conversation is the only state. They use the models of the planner, the executor and the verifier.

Source: Q. Wu et al., "AutoGen: Enabling Next-Gen LLM Applications via Multi-Agent Conversation", 2023.
"""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.tools import BaseTool
from langgraph.runtime import Runtime

from agentflow.evals.baselines.react import act, read_answer
from agentflow.evals.baselines.run import ask_in_time, graph_of
from agentflow.graph.agent import Agent
from agentflow.graph.context import Context
from agentflow.graph.state import Action, Plan, State, Turn, Verdict
from agentflow.graph.toolbox import Toolbox
from agentflow.nodes.planner import describe_tools
from agentflow.nodes.reply_parsing import spoken
from agentflow.nodes.verifier import status_after
from agentflow.tools.result import ToolResult

TEAM = "You are the {role} of a team that answers a question: a planner, an assistant with tools, and a critic."

PLANNER = f"""\
{TEAM.format(role="planner")} Say in one or two sentences what the assistant should do next, which may be to answer. \
You cannot use tools.

The assistant's tools:
{{tools}}"""

ASSISTANT = f"""\
{TEAM.format(role="assistant")} Do what the planner said last.

Tools:
{{tools}}

Write either a call, its first line Tool: and the tool's name, then the arguments as a JSON object, or a program in a \
```python block; or, when you know it, the answer, as Answer: and the answer alone."""

CRITIC = f"""\
{TEAM.format(role="critic")} Say in one or two sentences whether what the assistant did is right, and what is missing. \
If it has given an answer and the conversation proves that it is right, write APPROVE."""

APPROVED = "APPROVE"


def messages(prompt: str, state: State) -> list[BaseMessage]:
    """Return the messages for a member of the team: its system prompt, the question and the conversation so far."""
    lines = [f"Question: {state.question}"]
    for turn in state.memory:
        lines += [*_spoken(turn.plan, turn.action), f"Critic: {turn.verdict.analysis}"]
    if state.plan:
        lines += _spoken(state.plan, state.action)
    return [SystemMessage(prompt), HumanMessage("\n\n".join(lines))]


def _spoken(plan: Plan, action: Action | None) -> list[str]:
    step = f"Planner: {plan.sub_goal}"
    return [step, f"Assistant: {plan.text}", action.result.describe()] if action else [step]


async def critic(state: State, runtime: Runtime[Context]) -> dict[str, Any]:
    """Node: approve the answer and end the conversation, or state what is missing."""
    context = Context.of(runtime)
    if state.plan is None or state.action is None:
        raise RuntimeError("the critic speaks after the assistant")
    reply = spoken(await ask_in_time(context, "verifier", messages(CRITIC, state), state.seconds_left()) or "")
    approved = APPROVED in reply and state.answer != ""
    verdict = Verdict(analysis=reply, signal="stop" if approved else "continue")
    turn = Turn(turn=len(state.memory) + 1, plan=state.plan, action=state.action, verdict=verdict)
    return {"memory": [turn], "plan": None, "status": status_after(turn, state, context)}


def build_graph(tools: Sequence[BaseTool | str] = ()) -> Agent:
    """Return the compiled graph; `tools` are available in addition to the context's."""
    toolbox = Toolbox(tools)

    async def planner(state: State, runtime: Runtime[Context]) -> dict[str, Any]:
        """Return the plan with the next step as its sub-goal. The assistant adds the plan's text."""
        context = Context.of(runtime)
        finished = state.model_copy(update={"plan": None})
        available = await toolbox.available_tools(context)
        prompt = PLANNER.format(tools=describe_tools(available.cards.values()))
        reply = await ask_in_time(context, "planner", messages(prompt, finished), state.seconds_left())
        return {"plan": Plan(text="", sub_goal=spoken(reply or "")), "action": None}

    async def assistant(state: State, runtime: Runtime[Context]) -> dict[str, Any]:
        """Return the tool call and its result, or an answer, which a later one replaces."""
        context, step = Context.of(runtime), state.plan.sub_goal if state.plan else ""
        available = await toolbox.available_tools(context)
        prompt = ASSISTANT.format(tools=describe_tools(available.cards.values()))
        reply = await ask_in_time(context, "executor", messages(prompt, state), state.seconds_left()) or ""
        if (answer := read_answer(reply, available.cards)) is not None:
            result = ToolResult(status="ok", output=f"the answer {answer}")
            plan, action = Plan(text=reply), Action(result=result)
        else:
            plan, action = await act(reply, toolbox, context, state.seconds_left())
        answered = {} if answer is None else {"answer": answer, "messages": [AIMessage(reply)]}
        return {"plan": plan.model_copy(update={"sub_goal": step}), "action": action, **answered}

    return graph_of("team", planner=planner, executor=assistant, verifier=critic)
