"""LangChain's own agent: `create_agent` with the model's native tool calls.

It is what a model with tools is in LangChain without anything of ours, so it shows what AgentFlow adds. The tools run
as in the other agents, under the same limits.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.runtime import Runtime

from agentflow.evals.baselines.run import graph_of
from agentflow.graph.agent import RECURSION_LIMIT, Agent
from agentflow.graph.context import Context
from agentflow.graph.models.loading import aload_model, called_by, explained
from agentflow.graph.state import Action, Plan, State, Turn, Verdict
from agentflow.graph.toolbox import Toolbox
from agentflow.nodes import answer_text
from agentflow.nodes.executor import TOOL_SECONDS
from agentflow.tools.result import ErrorClass, ToolResult
from agentflow.tools.run import run_tool
from agentflow.tools.untrusted_text import one_line

PROMPT = """\
Answer the question, with the tools where they help. Think first if it helps, then end with:
Answer: the answer alone, in the form that the question asks for"""


def build_graph(tools: Sequence[BaseTool | str] = ()) -> Agent:
    """Return the compiled graph; `tools` are available in addition to the context's."""
    toolbox = Toolbox(tools)

    async def policy(state: State, runtime: Runtime[Context]) -> dict[str, Any]:
        """Node: run the whole agent, and return its tool calls as turns. Raises ModelError."""
        from langchain.agents import create_agent  # late: it takes half a second

        context = Context.of(runtime)
        usable = (await toolbox.available_tools(context)).tools
        model = await aload_model(context.model_of("planner"), context.sampling_of("planner"))
        agent = create_agent(model, [*usable.values()], system_prompt=PROMPT, middleware=[_calls(state, context)])
        config: RunnableConfig = {**called_by("planner"), "recursion_limit": RECURSION_LIMIT}
        messages: list[BaseMessage] = [HumanMessage(state.question)]
        asked: Any = {"messages": [*messages]}
        try:
            async with asyncio.timeout(state.seconds_left()), explained(model):
                async for found in agent.astream(asked, config, stream_mode="values"):
                    messages = found["messages"]
                    if _asked(messages) > context.max_turns:
                        break
        except TimeoutError:
            return {"memory": _turns(messages), "status": "out_of_time"}
        last = messages[-1]
        if not isinstance(last, AIMessage) or last.tool_calls:
            return {"memory": _turns(messages), "status": "out_of_turns"}
        answer = answer_text.parse(last.text)
        return {"memory": _turns(messages), "status": "answered", "answer": answer, "messages": [AIMessage(last.text)]}

    return graph_of("create_agent", planner=policy)


def _calls(state: State, context: Context) -> Any:
    """Return the middleware that makes the calls, and keeps each result whole beside its message."""
    from langchain.agents.middleware import wrap_tool_call  # late, as above

    @wrap_tool_call
    async def call(request: Any, handler: Any) -> Any:
        asked = request.tool_call
        if request.tool is None:
            result = ToolResult.failed(ErrorClass.UNKNOWN_TOOL, f"there is no tool '{one_line(asked['name'], 80)}'")
        else:
            result = await run_tool(request.tool, asked["args"], min(TOOL_SECONDS, state.seconds_left()))
        result = result.shortened(context.result_tokens)
        status = "error" if result.error else "success"
        return ToolMessage(result.output, name=asked["name"], tool_call_id=asked["id"], status=status, artifact=result)

    return call


def _asked(messages: Sequence[BaseMessage]) -> int:
    """Return how often the model has asked for tools."""
    return sum(isinstance(message, AIMessage) and bool(message.tool_calls) for message in messages)


def _turns(messages: Sequence[BaseMessage]) -> list[Turn]:
    """Return a turn for each call that has a result."""
    turns: list[Turn] = []
    asking = AIMessage("")
    for message in messages:
        if isinstance(message, AIMessage):
            asking = message
        elif isinstance(message, ToolMessage):
            call = next(call for call in asking.tool_calls if call["id"] == message.tool_call_id)
            plan = Plan(text=asking.text, tool=call["name"])
            action = Action(arguments=call["args"], result=message.artifact)
            verdict = Verdict(analysis="", signal="continue")
            turns.append(Turn(turn=len(turns) + 1, plan=plan, action=action, verdict=verdict))
    return turns
