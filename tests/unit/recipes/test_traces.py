"""The traces say what the real graph would: the nodes' parsers read them, the real tools return their results."""

import re
from collections import Counter
from itertools import islice

import pytest

from agentflow.evals.atlas.encyclopedia import index_path
from agentflow.graph.context import DEFAULT_TOOLS, Context
from agentflow.nodes import answer_text, executor, planner, verifier
from agentflow.rl.micro import declining
from agentflow.tools.catalogue import standard_cards
from agentflow.tools.encyclopedia.corpus import Corpus
from agentflow.tools.result import ErrorClass, ToolResult
from recipes.micro.traces import FAULTLESS, Conversation, traces


def search(query: str) -> ToolResult:
    page = Corpus(index_path()).page(query)
    if page is None:
        return ToolResult.failed(ErrorClass.EMPTY_RESULT, f'no page matches "{query}"')
    return ToolResult(status="ok", output=f"{page.title}: {page.text}")


@pytest.fixture(scope="module")
def conversations() -> list[Conversation]:
    return list(islice(traces(search, seed=3), 1500))


def test_the_same_seed_gives_the_same_traces(conversations):
    assert list(islice(traces(search, seed=3), 300)) == conversations[:300]
    assert list(islice(traces(search, seed=4), 300)) != conversations[:300]
    modules = {conversation.module.split()[0] for conversation in conversations}
    assert modules == {"analyst", "planner", "executor", "verifier", "generator", "tools"}


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


def chains(conversations: list[Conversation], tool: str) -> Counter[str]:
    """Return how often planners of arithmetic chains chose `tool`, for single operations and longer chains."""
    found: Counter[str] = Counter()
    for conversation in conversations:
        question = conversation.messages[1][1].partition(" What is the result")[0]
        if conversation.module == "planner" and re.search(r"Start with \d+, ", question):
            said = " ".join(content for role, content in conversation.messages if role == "assistant")
            found["single" if question.count(",") == 1 else "longer"] += tool in said
    return found


def test_the_planner_is_imperfect_on_purpose():
    rows = list(islice(traces(search, seed=3), 24_000))
    guesses, programs = (chains(rows, tool) for tool in ("base_generator", "python_coder"))
    assert guesses["longer"] > programs["longer"]
    assert guesses["single"] < programs["single"]


def test_a_faultless_planner_neither_guesses_nor_invents_tools():
    rows = [row for row in islice(traces(search, 3, FAULTLESS), 1500) if row.module == "planner"]
    assert not chains(rows, "base_generator").total()
    said = [content for row in rows for role, content in row.messages if role == "assistant"]
    assert all(planner.parse(text, DEFAULT_TOOLS).error is None for text in said)


def test_only_those_who_do_not_learn_have_met_the_longest_chains(conversations):
    longest = Counter(
        row.module
        for row in conversations
        if "Start with" in row.messages[1][1].split("?")[0] and row.messages[1][1].split("?")[0].count(",") == 4
    )
    assert longest["verifier"] > 0
    assert longest["planner"] == 0


def test_a_question_outside_atlas_gets_the_plain_reply(conversations):
    answers = [answer_text.parse(c.messages[-1][1]) for c in conversations if c.module == "generator"]
    assert answers.count(declining.REPLY) > 10
