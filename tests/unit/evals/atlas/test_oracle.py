"""The oracle, through the real graph and tools, is right; with fewer turns, less often; with random tools, far less."""

import asyncio

from agentflow.evals.atlas.families import FAMILIES, questions
from agentflow.evals.scorers.exact import correct
from agentflow.graph.agent import graph
from agentflow.graph.context import Context

ASKED = questions("test", 3 * len(FAMILIES))


async def accuracy(context: Context) -> float:
    async def right(question) -> bool:
        state = await graph.ainvoke({"messages": [("user", question.question)]}, context=context)
        return correct(state["answer"], question.answer, question.numbers, question.target)

    return sum(await asyncio.gather(*map(right, ASKED))) / len(ASKED)


async def test_the_oracle_is_always_right():
    assert await accuracy(Context(model="atlas-oracle")) == 1.0


async def test_its_accuracy_rises_with_the_turns_it_may_take():
    scores = [await accuracy(Context(model="atlas-oracle", max_turns=turns)) for turns in (1, 2, 3)]
    assert 0 < scores[0] < scores[1] < scores[2] < 1
