"""The monolithic policy: its traces can be read, and a policy that writes them is rewarded."""

import pytest

from agentflow.evals.atlas.encyclopedia import index_path
from agentflow.evals.atlas.families import FAMILIES, questions
from agentflow.evals.baselines.react import read_answer, read_call
from agentflow.rl.chat import ChatRequest, TokenReply
from agentflow.rl.rollout import RolloutStatus, run
from agentflow.tools.catalogue import standard_cards
from agentflow.tools.encyclopedia.corpus import Corpus
from agentflow.tools.result import ErrorClass, ToolResult
from benchmarks.analyses.monolithic import TOOLS, conversation, conversations, monolithic
from recipes.micro.traces import FAULTLESS, Tracer


def search(query: str) -> ToolResult:
    page = Corpus(index_path()).page(query)
    if page is None:
        return ToolResult.failed(ErrorClass.EMPTY_RESULT, f'no page matches "{query}"')
    return ToolResult(status="ok", output=f"{page.title}: {page.text}")


def test_what_it_learns_can_be_read() -> None:
    cards = standard_cards(TOOLS)
    for row in conversations(search, 120):
        *calls, last = [content for role, content in row.messages if role == "assistant"]
        assert read_answer(last)
        for call in calls:
            plan, arguments = read_call(call, cards)
            assert read_answer(call) is None
            assert (arguments is not None) == (plan.tool in TOOLS)


@pytest.mark.parametrize("number", range(len(FAMILIES)))
async def test_a_policy_that_writes_a_faultless_trace_is_rewarded(number: int) -> None:
    question = questions("test", len(FAMILIES))[number]
    said = [
        content
        for role, content in conversation(Tracer(search, 5, FAULTLESS), question).messages
        if role == "assistant"
    ]
    app = monolithic()
    replies = iter(said)

    async def generate(request: ChatRequest) -> TokenReply:
        return TokenReply(next(replies), [1, 2], [3], [-0.5], "stop")

    task = app.tasks("test", len(FAMILIES))[number]
    trajectory = await run(app, app.built(), task, generate, id="one", seconds=60)
    assert (trajectory.status, trajectory.reward) == (RolloutStatus.OK, 1.0), trajectory.trace
    assert len(trajectory.calls) == len(said)
    assert len(trajectory.trace.turns) == len(said) - 1
