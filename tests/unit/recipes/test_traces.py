"""The traces say what the real graph would: the nodes' parsers read them, the real tools return their results."""

import random
from itertools import islice

import pytest

from agentflow.evals.atlas.encyclopedia import index_path
from agentflow.graph.context import DEFAULT_TOOLS, Context
from agentflow.nodes import answer_text, executor, planner, verifier
from agentflow.tools.catalogue import standard_cards
from agentflow.tools.encyclopedia.corpus import Corpus
from agentflow.tools.result import ErrorClass, ToolResult
from recipes.micro import everyday, outside
from recipes.micro.traces import Conversation, traces
from tests.pages import ROOT
from tests.processes import python


def search(query: str) -> ToolResult:
    page = next(iter(Corpus(index_path()).pages(query, 1)), None)
    if page is None:
        return ToolResult.failed(ErrorClass.EMPTY_RESULT, f'no page matches "{query}"')
    return ToolResult(status="ok", output=f"{page.title}: {page.text}")


@pytest.fixture(scope="module")
def conversations() -> list[Conversation]:
    return list(islice(traces(search, seed=3), 1500))


def test_the_parsers_read_what_is_learnt(conversations):
    cards = standard_cards(Context().tools)
    for conversation in conversations:
        replies = [content for role, content in conversation.messages if role == "assistant"]
        for reply in replies:
            if conversation.module == "planner":
                plan = planner.parse(reply, DEFAULT_TOOLS)
                assert plan.error in (None, ErrorClass.UNKNOWN_TOOL)
            elif conversation.module == "verifier":
                assert verifier.reply_text(verifier.parse(reply)) == reply
            elif conversation.module == "generator":
                assert answer_text.parse(reply)
            elif conversation.module.startswith("executor"):
                assert executor.parse(reply, cards[conversation.module.split()[1]]) is not None


# ---------------------------------------------------------------- everyday sums

HELD_OUT = ROOT / "benchmarks" / "questions"


@pytest.mark.process
def test_programs_print_the_answers():
    # In another process: the programs are Python, and only a sandbox runs what comes from a model.
    problems = [everyday.question(random.Random(seed)) for seed in range(600)]
    program = "\n".join(problem.steps[0].arguments["code"] for problem in problems)
    assert python("-c", program, check=True).stdout.splitlines() == [problem.answer for problem in problems]


def test_no_question_of_the_benchmark_is_in_the_training_data():
    held_out = {
        line.partition("\t")[0]
        for name in ("elementary", "off_topic")
        for line in (HELD_OUT / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    }
    assert len(held_out) == 220
    rng = random.Random("held out")
    made = {everyday.question(rng).question for _ in range(20_000)} | {outside.question(rng) for _ in range(20_000)}
    assert not held_out & made
