"""Traces of a server that returns token ids, in the form that vLLM gives them."""

from typing import Any, TypedDict

from langgraph.graph import END, START, StateGraph

from agentflow.graph.context import Sampling
from agentflow.graph.models.loading import load_model
from agentflow.graph.tracing.observer import Observer
from agentflow.rl.policy.traced import TracedModel
from agentflow.rl.rollout.calls import TokenCollector, TokenError
from tests.failing import fails
from tests.fake_openai import FakeOpenAI, completion


class Talk(TypedDict):
    text: str


def vllm_reply(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    ids = [11, 12, 13] if body.get("return_token_ids") else None
    made = completion("fake-model", "a b c")
    logprobs = {"content": [{"token": "t", "logprob": -0.5 * n, "bytes": None, "top_logprobs": []} for n in (1, 2, 3)]}
    made["choices"][0] |= {"logprobs": logprobs if body.get("logprobs") else None, "token_ids": ids}
    usage = {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}
    return 200, {**made, "prompt_token_ids": [1, 2] if ids else None, "usage": usage}


def no_ids(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    return vllm_reply({key: value for key, value in body.items() if key != "return_token_ids"})


async def run(server: FakeOpenAI) -> TokenCollector:
    model = load_model(f"traced:vllm:fake-model@{server.base_url}", Sampling(temperature=1.0, max_tokens=7))
    assert isinstance(model, TracedModel)

    async def plan(state: Talk) -> Talk:
        return {"text": str((await model.ainvoke(state["text"])).text)}

    builder = StateGraph(Talk)
    builder.add_node("plan", plan)
    builder.add_edge(START, "plan")
    builder.add_edge("plan", END)
    collector = TokenCollector("r", {"plan"})
    state = await builder.compile().ainvoke({"text": "q"}, {"callbacks": [Observer(collector, raise_error=True)]})
    assert state["text"] == "a b c"
    return collector


async def test_the_servers_ids_are_what_is_trained_on() -> None:
    with FakeOpenAI(vllm_reply) as server:
        (call,) = (await run(server)).calls
        assert server.bodies[0]["temperature"] == 1.0
        assert server.bodies[0]["max_tokens"] == 7
    assert (call.prompt_ids.tolist(), call.response_ids.tolist(), call.logprobs.tolist()) == (
        [1, 2],
        [11, 12, 13],
        [-0.5, -1.0, -1.5],
    )
    assert call.finish_reason == "stop"


async def test_a_server_without_ids_is_refused() -> None:
    with FakeOpenAI(no_ids) as server, fails(TokenError, "no_ids"):
        await run(server)
