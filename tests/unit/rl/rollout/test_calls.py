import asyncio
import operator
import random
from typing import Annotated, Any, TypedDict
from uuid import uuid4

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph

from agentflow.graph.tracing.observer import Observer
from agentflow.rl.policy.chat import ChatRequest, TokenReply
from agentflow.rl.policy.policy import Policy, serving
from agentflow.rl.rollout.calls import TokenCollector, TokenError
from tests.cases import table
from tests.failing import fails


class Talk(TypedDict):
    text: str
    said: Annotated[list[str], operator.add]


def graph(model: BaseChatModel) -> Any:
    """Node "plan" calls the model three times over, node "other" once."""

    async def plan(state: Talk) -> dict[str, Any]:
        return {"said": [str((await model.ainvoke(f"{state['text']} {len(state['said'])}")).text)]}

    async def other(state: Talk) -> dict[str, Any]:
        await model.ainvoke("not trained")
        return {}

    builder = StateGraph(Talk)
    builder.add_node("plan", plan)
    builder.add_node("other", other)
    builder.add_edge(START, "plan")
    builder.add_conditional_edges("plan", lambda state: "plan" if len(state["said"]) < 3 else "other")
    builder.add_edge("other", END)
    return builder.compile()


def collecting(collector: TokenCollector) -> RunnableConfig:
    return {"callbacks": [Observer(collector, raise_error=True)]}


class Server:
    """Gives every rollout ids of its own, after a random while, and a text that has nothing to do with them."""

    def __init__(self, rollout: int) -> None:
        self.rollout = rollout
        self.given: list[TokenReply] = []

    async def __call__(self, request: ChatRequest) -> TokenReply:
        await asyncio.sleep(random.random() * 0.02)
        trained = request.messages[-1]["content"] != "not trained"
        ids = [self.rollout] * random.randint(1, 5)
        prompt = [self.rollout, len(request.messages)]
        reply = TokenReply(f"text {self.rollout}", prompt, ids, [-1.0] * len(ids), "stop", 7)
        if trained:
            self.given.append(reply)
        return reply


async def test_256_rollouts_at_once_are_not_mixed_up() -> None:
    app = graph(Policy())

    async def rollout(number: int) -> None:
        server, collector = Server(number), TokenCollector(str(number), {"plan"})
        with serving(server):
            state = await app.ainvoke({"text": f"q{number}", "said": []}, collecting(collector))
        assert state["said"] == [f"text {number}"] * 3
        assert [call.turn for call in collector.calls] == [0, 1, 2]
        known = {(call.rollout, call.node, call.weights_version) for call in collector.calls}
        assert known == {(str(number), "plan", 7)}
        assert [call.response_ids.tolist() for call in collector.calls] == [reply.token_ids for reply in server.given]
        assert [call.prompt_ids.tolist() for call in collector.calls] == [reply.prompt_ids for reply in server.given]

    await asyncio.gather(*map(rollout, range(256)))


async def test_a_node_whose_model_gives_no_ids_cannot_be_trained() -> None:
    app = graph(FakeListChatModel(responses=["a"]))
    with fails(TokenError, "no_ids", "plan"):
        await app.ainvoke({"text": "q", "said": []}, collecting(TokenCollector("r", {"plan"})))


def observed(collector: TokenCollector, reply: AIMessage) -> None:
    observer, run = Observer(collector, raise_error=True), uuid4()
    observer.on_chat_model_start({}, [[HumanMessage("q")]], run_id=run, metadata={"langgraph_node": "plan"})
    observer.on_llm_end(LLMResult(generations=[[ChatGeneration(message=reply)]]), run_id=run)


@pytest.mark.parametrize(("code", "prompt", "ids", "logprobs", "usage"), table(__file__, "calls.txt"))
def test_what_are_no_tokens_or_do_not_fit_together_is_refused(
    code: str, prompt: list[int], ids: list[Any], logprobs: list[Any], usage: tuple[int, int] | None
) -> None:
    reply = AIMessage("text", response_metadata={"prompt_token_ids": prompt, "token_ids": ids, "logprobs": logprobs})
    if usage:
        reply.usage_metadata = {"input_tokens": usage[0], "output_tokens": usage[1], "total_tokens": sum(usage)}
    with fails(TokenError, code, "plan"):
        observed(TokenCollector("r", {"plan"}), reply)


def test_a_reply_from_langchains_cache_has_no_counts_to_compare() -> None:
    collector = TokenCollector("r", {"plan"})
    reply = AIMessage("text", response_metadata={"prompt_token_ids": [1], "token_ids": [2], "logprobs": [-1.0]})
    reply.usage_metadata = {"total_cost": 0}  # type: ignore[typeddict-item,typeddict-unknown-key]
    observed(collector, reply)
    assert [call.response_ids.tolist() for call in collector.calls] == [[2]]
