"""Ours: a plain graph with our policy, and AgentFlow's graph with the policy and at an endpoint.

The policy is served over aiohttp like the trainer's rollout servers: messages in, ids and log-probabilities out, and
every call is captured with them. At an endpoint, as in `agentflow eval`, nothing is captured. Garbage is collected as
rarely as both do it.
"""

import json
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from operator import add
from typing import Annotated, Any, Literal, TypedDict

import aiohttp
from langchain_core.messages import AnyMessage, HumanMessage
from langchain_core.tools import StructuredTool
from langgraph.graph import START, StateGraph

from agentflow.graph.agent import build_graph
from agentflow.graph.context import MODULES, Context
from agentflow.graph.run.garbage import rarely_collected
from agentflow.graph.state import InputState
from agentflow.graph.tracing.observer import Observer
from agentflow.nodes import analyst, executor, generator, planner, verifier
from agentflow.rl.policy.chat import ChatRequest, Generate, TokenReply
from agentflow.rl.policy.policy import Policy, serving
from agentflow.rl.rollout.calls import TokenCollector
from benchmarks.speed.work import ANSWER, QUESTION, Rollout, Work

DISTRIBUTION = "agentflow-langgraph"

_BEGINNINGS = {
    module.PROMPT.split("{")[0]: module.__name__.rpartition(".")[2]
    for module in (analyst, planner, executor, verifier, generator)
}


@asynccontextmanager
async def served(url: str) -> AsyncIterator[Generate]:
    """Yield the function with which `Policy` calls the server at `url`."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def generate(request: ChatRequest) -> TokenReply:
            body = {
                "model": module_of(request.messages[0]["content"]),
                "messages": list(request.messages),
                "logprobs": True,
                "return_token_ids": True,
            }
            async with session.post(f"{url}/chat/completions", json=body) as response:
                found = json.loads(await response.read())
            choice = found["choices"][0]
            return TokenReply(
                text=choice["message"]["content"] or "",
                prompt_ids=found["prompt_token_ids"],
                token_ids=choice["token_ids"],
                logprobs=[token["logprob"] for token in choice["logprobs"]["content"]],
                finish_reason=choice["finish_reason"],
            )

        yield generate


def module_of(system: str) -> str:
    """Return the module of AgentFlow with these instructions, or "none" for another graph."""
    return next((name for beginning, name in _BEGINNINGS.items() if system.startswith(beginning)), "none")


class Talk(TypedDict):
    """State of the plain graph."""

    messages: Annotated[list[AnyMessage], add]


@asynccontextmanager
async def plain(work: Work) -> AsyncIterator[Rollout]:
    """Yield rollouts of a graph that alternates model and tool until the model answers."""
    model = Policy()

    async def policy(state: Talk) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    async def tool(state: Talk) -> dict[str, Any]:
        return {"messages": [HumanMessage(work.result)]}

    def after_policy(state: Talk) -> Literal["tool", "__end__"]:
        return "__end__" if ANSWER in state["messages"][-1].text else "tool"

    builder = StateGraph(Talk)
    builder.add_node("policy", policy)
    builder.add_node("tool", tool)
    builder.add_edge(START, "policy")
    builder.add_conditional_edges("policy", after_policy)
    builder.add_edge("tool", "policy")
    graph = builder.compile()

    async with served(work.url("text")) as generate:

        async def rollout() -> str:
            collector = TokenCollector("rollout", {"policy"})
            config = {"callbacks": [Observer(collector, raise_error=True)]}
            with serving(generate):
                state = await graph.ainvoke({"messages": [HumanMessage(QUESTION)]}, config)
            assert len(collector.calls) == work.calls
            return str(state["messages"][-1].text)

        with rarely_collected():
            yield rollout


@asynccontextmanager
async def agent(work: Work) -> AsyncIterator[Rollout]:
    """Yield rollouts of AgentFlow's graph, all of whose modules use the policy."""
    async with served(work.url("text")) as generate:
        run = _agent(work, Context(model="policy", profile="paper"), captured=MODULES)

        async def rollout() -> str:
            with serving(generate):
                return await run()

        with rarely_collected():
            yield rollout


@asynccontextmanager
async def endpoint(work: Work) -> AsyncIterator[Rollout]:
    """Yield rollouts of AgentFlow's graph, all of whose modules are behind an OpenAI-compatible endpoint."""
    specs = {module: f"vllm:{module}@{work.url('text')}" for module in MODULES}
    with rarely_collected():
        yield _agent(work, Context(models=specs, profile="paper"), captured=())


def _agent(work: Work, context: Context, captured: Collection[str]) -> Rollout:
    """Return rollouts of AgentFlow's graph: five model calls in the first turn, three more in each further one."""
    turns = max(1, (work.calls - 2) // 3)
    result = work.result_of(turns)

    async def look_up(text: str) -> str:
        """Looks something up."""
        return result

    graph = build_graph([StructuredTool.from_function(coroutine=look_up)])
    settings = {"tools": ["look_up"], "max_turns": turns, "memory_tokens": 1_000_000}
    context = context.model_copy(update=settings)

    async def rollout() -> str:
        collector = TokenCollector("rollout", captured or ["no node"])
        question = InputState(messages=[HumanMessage(QUESTION)])
        state = await graph.ainvoke(question, {"callbacks": [Observer(collector, raise_error=True)]}, context=context)
        assert [turn.action.result.error for turn in state["memory"]] == [None] * turns
        assert len(collector.calls) == (3 * turns + 2 if captured else 0)
        return str(state["answer"])

    return rollout
