"""Pins what the models of the default agent read. The shipped checkpoint was trained on these texts, to the letter.

`python -m tests.unit.nodes.test_prompts` writes the files anew, which is right only together with a new checkpoint.
"""

import json
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import BaseMessage, HumanMessage

from agentflow.graph.context import DEFAULT_TOOLS
from agentflow.graph.models.providers import Profile
from agentflow.graph.state import Action, Plan, Turn, Verdict
from agentflow.nodes import analyst, executor, generator, planner, verifier
from agentflow.tools import base_generator
from agentflow.tools.catalogue import standard_cards
from agentflow.tools.result import ErrorClass, ToolResult

PROMPTS = Path(__file__).with_name("prompts")
RETRAIN = (
    "{name} differs from what the shipped checkpoint was trained on. If that is meant, retrain it with "
    "`python -m recipes.micro.pretrain`, and then write the files anew with "
    "`python -m tests.unit.nodes.test_prompts`."
)

QUESTION = "In which year was the author of {The Hobbit} born, plus 8?"
ANALYSIS = "A year is asked for.\nLook up the author, then add."
CARDS = standard_cards(DEFAULT_TOOLS)

FAILED, FOUND, UNREADABLE = (
    Turn.model_validate(json.loads(line)["turn"])
    for line in PROMPTS.with_name("turns.jsonl").read_text(encoding="utf-8").splitlines()
)


def planned(memory: list[Turn], max_turns: int = 10, profile: Profile = "paper") -> list[BaseMessage]:
    tools = planner.describe_tools(CARDS.values(), profile)
    return planner.messages(QUESTION, ANALYSIS, memory, tools, max_turns, planner.PROMPTS[profile], profile=profile)


def verified(turns: list[Turn], profile: Profile = "paper") -> list[BaseMessage]:
    """The conversation in which the last of `turns` is judged."""
    replies = [verifier.reply_text(turn.verdict, profile) for turn in turns[:-1]]
    steps, prompt = [(turn.plan, turn.action) for turn in turns], verifier.PROMPTS[profile]
    return verifier.messages(QUESTION, ANALYSIS, steps, replies, prompt, profile)


RENDERINGS: dict[str, list[BaseMessage]] = {
    "analyst": analyst.messages(QUESTION, list(DEFAULT_TOOLS)),
    "planner": planned([FAILED, FOUND]),
    "verifier": verified([FAILED, FOUND]),
    "verifier_unreadable_plan": verified([UNREADABLE]),
    "generator": generator.messages(QUESTION, [FAILED, FOUND]),
    "base_generator": [HumanMessage(base_generator.prompt("What is 1892 + 8?"))],
} | {f"executor_{name}": executor.messages(card, FOUND.plan) for name, card in CARDS.items()}


def rendered(conversation: list[BaseMessage]) -> str:
    return "".join(f"=== {message.type} ===\n{message.text}\n" for message in conversation)


@pytest.mark.parametrize("name", RENDERINGS)
def test_the_prompt_is_the_one_that_the_checkpoint_was_trained_on(name: str) -> None:
    expected = (PROMPTS / f"{name}.txt").read_text(encoding="utf-8")
    assert rendered(RENDERINGS[name]) == expected, RETRAIN.format(name=name)


def test_every_file_is_a_prompt() -> None:
    assert {path.stem for path in PROMPTS.iterdir()} == set(RENDERINGS)


def test_an_unreadable_plan_is_what_the_parser_makes_of_it() -> None:
    assert planner.parse(UNREADABLE.plan.text, DEFAULT_TOOLS) == UNREADABLE.plan


TEXT = st.text(max_size=60)
RESULTS = st.builds(lambda output: ToolResult(status="ok", output=output), TEXT) | st.builds(
    ToolResult.failed, st.sampled_from(ErrorClass), TEXT
)
TURNS = st.lists(st.tuples(TEXT, TEXT, RESULTS, TEXT), min_size=1, max_size=6).map(
    lambda rows: [
        Turn(
            turn=number,
            plan=Plan(text=text, sub_goal=goal, tool="python_coder"),
            action=Action(result=result),
            verdict=Verdict(analysis=analysis, signal="continue"),
        )
        for number, (text, goal, result, analysis) in enumerate(rows, start=1)
    ]
)


@pytest.mark.parametrize("profile", get_args(Profile))
@given(turns=TURNS)
def test_the_planners_conversation_only_grows(profile: Profile, turns: list[Turn]) -> None:
    """The tokens of a turn extend those of the turn before, to which the planner's own words are added."""
    for done, turn in enumerate(turns):
        before, after = planned(turns[:done], profile=profile), planned(turns[: done + 1], profile=profile)
        assert after[: len(before)] == before
        reply, outcome = after[len(before) :]
        assert (reply.type, reply.text) == ("ai", turn.plan.text)
        assert outcome.type == "human"
        assert turn.action.result.output in outcome.text
        assert verifier.own_words(turn.verdict) in outcome.text  # reference bug: the verdict was not in the memory


@pytest.mark.parametrize("profile", get_args(Profile))
@given(turns=TURNS)
def test_the_verifiers_conversation_only_grows(profile: Profile, turns: list[Turn]) -> None:
    for done in range(1, len(turns)):
        before, after = verified(turns[:done], profile), verified(turns[: done + 1], profile)
        assert after[: len(before)] == before
        assert [message.type for message in after[len(before) :]] == ["ai", "human"]


if __name__ == "__main__":
    for name, conversation in RENDERINGS.items():
        (PROMPTS / f"{name}.txt").write_text(rendered(conversation), encoding="utf-8")
