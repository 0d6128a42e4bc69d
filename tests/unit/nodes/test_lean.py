"""The lean profile: what models that were not trained on our prompts read, and rules that they cannot break."""

from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from agentflow.graph.agent import build_graph
from agentflow.graph.context import DEFAULT_TOOLS, Context
from agentflow.graph.state import Action, Plan, State, Turn, Verdict
from agentflow.nodes import answer_text, executor, generator, planner, verifier
from agentflow.nodes.demonstrations import ANSWERED
from agentflow.tools.card import ToolCard
from agentflow.tools.catalogue import standard_cards
from agentflow.tools.result import ErrorClass, ToolResult
from tests.cases import cases
from tests.scripted import PLAN, THREAD, Script, Scripted, echo, question

REPLIES = Path(__file__).with_name("replies")
CARDS = standard_cards(DEFAULT_TOOLS)
CONTEXT = Context(model="openai:m")
STOP, CONTINUE = "Verdict: stop", "Verdict: continue, the year is missing"
FLAKY = PLAN.replace("echo", "flaky")


@tool
async def flaky(text: str) -> str:
    """Fails."""
    raise ToolException("no such page")


@tool
async def passages(query: str) -> str:
    """Finds passages."""
    return f"Nothing but {query}"


passages.metadata = {"agentflow": {"takes_question": True, "side_effects": False}}


async def solve(script: Scripted, **fields: Any) -> State:
    context = Context(model=script.spec, profile="lean", **fields)
    return State.model_validate(await build_graph([echo, flaky]).ainvoke(question(), context=context))


async def test_a_question_takes_four_calls_and_an_analysis_where_it_is_asked_for(scripted: Script) -> None:
    script = scripted(verifier=STOP)
    assert (await solve(script)).status == "answered"
    assert [module for module, _ in script.calls] == ["planner", "executor", "verifier", "generator"]
    script.calls.clear()
    assert (await solve(script, analyst="on")).analysis
    assert script.calls[0][0] == "analyst"
    assert "Analysis: One word is asked for." in script.asked("planner")[0][-1].text


async def test_a_run_does_not_stop_while_nothing_was_found(scripted: Script) -> None:
    script = scripted(planner=[FLAKY, PLAN], verifier=STOP)
    state = await solve(script)
    assert [(turn.action.result.status, turn.verdict.signal) for turn in state.memory] == [
        ("error", "continue"),
        ("ok", "stop"),
    ]
    assert state.status == "answered"


async def test_a_run_may_stop_where_a_person_refused_its_call(scripted: Script) -> None:
    script = scripted(verifier=STOP)
    graph = build_graph([echo], checkpointer=InMemorySaver())
    context = Context(model=script.spec, profile="lean", approve_tools=["*"])
    await graph.ainvoke(question(), THREAD, context=context)
    found = await graph.ainvoke(Command(resume={"decision": "reject", "reason": "no"}), THREAD, context=context)
    state = State.model_validate(found)
    assert (state.status, [turn.action.result.error for turn in state.memory]) == ("answered", [ErrorClass.REFUSED])


async def test_a_call_that_finds_again_what_is_known_ends_the_run(scripted: Script) -> None:
    script = scripted(planner=PLAN, verifier=CONTINUE)
    state = await solve(script)
    assert (state.status, len(state.memory), len(script.asked("verifier"))) == ("answered", 2, 1)
    calls = [f'{{"text": "{number % 2}"}}' for number in range(4)]
    state = await solve(scripted(planner=PLAN, verifier=CONTINUE, executor=calls))
    assert (state.status, len(state.memory)) == ("answered", 3)
    state = await solve(scripted(planner=[PLAN, FLAKY], verifier=CONTINUE))
    assert (state.status, len(state.memory)) == ("out_of_turns", 4)  # a failure is no result


@pytest.mark.parametrize("plan", [FLAKY, "no plan"])
async def test_a_third_turn_that_fails_in_the_same_way_ends_the_run(scripted: Script, plan: str) -> None:
    script = scripted(planner=plan, verifier=CONTINUE)
    state = await solve(script)
    assert (state.status, len(state.memory)) == ("no_plan" if plan == "no plan" else "out_of_turns", 3)
    told = [planner.REPEATED in conversation[-1].text for conversation in script.asked("planner")]
    assert told == [False, False, True]


async def test_a_plan_that_fails_a_third_time_ends_the_run_whatever_its_calls(scripted: Script) -> None:
    calls = [f'{{"text": "{number % 2}"}}' for number in range(4)]
    state = await solve(scripted(planner=FLAKY, verifier=CONTINUE, executor=calls))
    assert [turn.action.arguments["text"] for turn in state.memory] == ["0", "1", "0"]
    plans = [FLAKY, FLAKY.replace("hello", "other"), FLAKY, PLAN]
    calls = [f'{{"text": "{number}"}}' for number in range(4)]
    assert len((await solve(scripted(planner=plans, verifier=STOP, executor=calls))).memory) == 4


def test_a_tool_that_takes_the_step_sees_a_step_that_is_the_question_once() -> None:
    card = standard_cards(["base_generator"])["base_generator"]
    seen = [
        executor.call_in(Plan(text="", sub_goal=step, tool="base_generator", context="2 g"), card, "Which word?")
        for step in ("which word?", "find it")
    ]
    assert seen == [{"query": "Which word?\n\n2 g"}, {"query": "Which word?\n\nfind it\n2 g"}]


async def test_turns_that_differ_are_not_the_same(scripted: Script) -> None:
    calls = [f'{{"text": "{number}"}}' for number in range(4)]
    state = await solve(scripted(verifier=CONTINUE, executor=calls), max_turns=4)
    assert (state.status, len(state.memory)) == ("out_of_turns", 4)


@pytest.mark.parametrize(("tool", "given", "arguments"), cases(REPLIES / "inputs.jsonl", "tool", "given", "arguments"))
def test_a_plan_holds_the_call_if_its_input_is_one(tool: str, given: str, arguments: dict[str, Any] | None) -> None:
    card = ToolCard.of(echo) if tool == "echo" else standard_cards([tool])[tool]
    plan = Plan(text=f"Sub-Goal: a step\nTool: {tool}\nInput: {given}", sub_goal="a step", tool=tool, context=given)
    assert executor.call_in(plan, card, "Q?") == arguments
    assert executor.call_in(plan.model_copy(update={"text": plan.text.replace("Input", "Context")}), card, "Q?") is None


@pytest.mark.parametrize("more", [{}, {"additionalProperties": True}])
def test_a_tool_without_arguments_needs_no_input(more: dict[str, Any]) -> None:
    card = ToolCard(name="now", description="The time.", arguments={"type": "object", "properties": {}, **more})
    assert executor.call_in(Plan(text="Sub-Goal: see\nTool: now"), card, "Q?") == (None if more else {})


async def test_a_call_that_failed_is_not_made_again_as_it_was(scripted: Script) -> None:
    planned = "Sub-Goal: find it\nTool: flaky\nInput: a word"
    script = scripted(planner=[planned, planned, PLAN], verifier=STOP)
    state = await solve(script)
    assert [turn.plan.tool for turn in state.memory] == ["flaky", "flaky", "echo"]
    assert script.asked("executor")[0][-1].text == "Question: Which word?\nSub-Goal: find it"
    assert len(script.asked("verifier")) == 1


async def test_a_step_that_is_the_call_needs_no_executor(scripted: Script) -> None:
    script = scripted(planner="Sub-Goal: name a word\nTool: base_generator\nContext: six letters", verifier=STOP)
    state = await solve(script)
    assert state.memory[0].action.arguments == {"query": "Which word?\n\nname a word\nsix letters"}
    assert script.asked("executor") == []


def test_the_descriptions_that_are_no_values_stand_in_the_prompts() -> None:
    known = planner.DESCRIPTIONS.values()
    assert all(any(text in prompt for text in texts) for prompt in planner.PROMPTS.values() for texts in known)


def test_the_planner_sees_a_plan_and_no_calls() -> None:
    shown = "".join(message.text for message in planner.conversation_of(State(question="Q?"), CONTEXT, CARDS))
    plans = planner.demonstrations(planner.LEAN, CARDS, 4)[1::2]
    for (asked, (name, *_)), plan in zip(planner.EXAMPLES.items(), plans, strict=True):
        parsed = planner.parse(plan.text, CARDS)
        assert (parsed.tool, executor.call_in(parsed, CARDS[name], "Q?") is None) == (name, False)
        assert asked in shown
        assert plan.text in shown
    assert len(planner.demonstrations(planner.LEAN, ["wikipedia_search"], 4)) == 2
    assert not any(example in shown for card in CARDS.values() for example in card.examples_as_json())
    own = CONTEXT.model_copy(update={"prompts": {"planner": "Plan with {tools}"}})
    assert len(planner.conversation_of(State(question="Q?"), own, CARDS)) == 2


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("a.csv", "x,y;z\n1,2,3\n", ["day,name,hours", "delimiter=','", "hours.csv"]),
        ("A.CSV", "x;y,z;w\n", ["day;name;hours", "delimiter=';'"]),
        ("a.tsv", "x\ty\n", ["day\tname\thours", "delimiter='\\t'"]),
        ("a.log", "x,y\n", ["pages.log", "splitlines"]),
        ("notes", "", ["pages.log"]),
    ],
)
def test_the_planner_sees_how_a_file_like_that_of_the_question_is_read(name: str, text: str, shown: list[str]) -> None:
    block = {"type": "text-plain", "title": name, "text": text}
    state = State(question="Q?", messages=[HumanMessage([{"type": "text", "text": "Q?"}, block])])
    *_, asked, plan, _ = planner.conversation_of(state, CONTEXT, CARDS)
    assert all(one in f"{asked.text}{plan.text}" for one in shown)
    assert executor.call_in(planner.parse(plan.text, CARDS), CARDS["python_coder"], "Q?")
    without = planner.conversation_of(State(question="Q?"), CONTEXT, CARDS)
    assert asked.text not in [message.text for message in without]


TURN = Turn(
    turn=1,
    plan=Plan(sub_goal="add", tool="python_coder"),
    action=Action(arguments={"code": "print(1 + 2)"}, result=ToolResult(status="ok", output="3")),
    verdict=Verdict(analysis=verifier.UNREADABLE, signal="continue"),
)


def test_our_sentences_are_not_shown_as_a_models_own() -> None:
    state = State(question="Q?", memory=[TURN])
    shown = verifier.conversation_of(state, CONTEXT, TURN.plan, TURN.action)
    assert verifier.UNREADABLE not in "".join(message.text for message in shown)
    planned = planner.conversation_of(state, CONTEXT, CARDS)
    assert verifier.UNREADABLE not in "".join(message.text for message in planned)
    assert shown[-2].text == "Verdict: continue"


@pytest.mark.parametrize(
    ("reply", "analysis", "signal"),
    [
        ("Verdict: stop", "", "stop"),
        ("Verdict: continue, the year is missing", "the year is missing", "continue"),
        ("Verdict: continue, since the program failed", "the program failed", "continue"),
        ("Verdict: continue", "", "continue"),
        ("Verdict: **continue**", "", "continue"),
        ("continue", "", "continue"),
        ("**Stop**", "", "stop"),
        ("The year is missing.\ncontinue", "The year is missing.", "continue"),
        ('{"Verdict": "stop"}', "", "stop"),
    ],
)
def test_a_verdict_of_one_line(reply: str, analysis: str, signal: str) -> None:
    verdict = verifier.parse(reply)
    assert (verdict.analysis, verdict.signal) == (analysis, signal)
    assert not reply.startswith("Verdict") or verifier.parse(verifier.reply_text(verdict, "lean")) == verdict


async def test_where_a_tool_finds_passages_a_run_begins_with_a_search_for_the_question(scripted: Script) -> None:
    script = scripted(verifier=[CONTINUE, STOP])
    graph, asked = build_graph([echo, passages]), "Which word?\n\nInput: five letters\nResult: none"
    found = await graph.ainvoke(question(asked), context=Context(model=script.spec, profile="lean"))
    turns = State.model_validate(found).memory
    calls = [("passages", {"query": " ".join(asked.split())}), ("echo", {"text": "hello"})]
    assert [(turn.plan.tool, turn.action.arguments) for turn in turns] == calls
    [conversation] = script.asked("planner")
    assert [message.text for message in conversation if message.type == "ai"][-1] == turns[0].plan.text
    script = scripted()
    for settings, first in (
        ({"profile": "paper"}, "echo"),
        ({"profile": "lean", "opening": "plan"}, "echo"),
        ({"profile": "paper", "opening": "search"}, "passages"),
    ):
        found = await graph.ainvoke(question(asked), context=Context(model=script.spec, **settings))
        assert State.model_validate(found).memory[0].plan.tool == first, settings


def test_no_search_is_an_example_where_a_run_begins_with_one() -> None:
    cards = {**CARDS, "wikipedia_search": CARDS["wikipedia_search"].model_copy(update={"takes_question": True})}
    planned = CONTEXT.model_copy(update={"opening": "plan"})
    for context, known, number in ((CONTEXT, CARDS, 3), (CONTEXT, cards, 2), (planned, cards, 3)):
        conversation = planner.conversation_of(State(question="Q?"), context, known)
        assert [message.type for message in conversation].count("ai") == number


@pytest.mark.parametrize(
    ("sizes", "places"),
    [([1], "Q1"), ([401], "1Q"), ([400, 1], "Q12"), ([1, 401, 1, 1], "12Q34"), ([401, 1, 401], "123Q"), ([], "Q")],
)
def test_the_generator_reads_the_question_after_the_last_long_result(sizes: list[int], places: str) -> None:
    plan = Plan(sub_goal="Find it.", tool="echo")
    results = [ToolResult(status="ok", output="x" * size) for size in sizes]
    verdict = Verdict(analysis="", signal="stop")
    memory = [
        Turn(turn=number, plan=plan, action=Action(arguments={}, result=result), verdict=verdict)
        for number, result in enumerate(results, 1)
    ]
    found = {profile: generator.messages("Why?", memory, profile=profile)[-1].text for profile in generator.PROMPTS}
    for profile, order in (("lean", places), ("paper", "Q" + places.replace("Q", ""))):
        parts = found[profile].split("\n\n")
        assert [part[0] if part[0] == "Q" else part.split()[1] for part in parts] == [*order]


@pytest.mark.parametrize("size", [400, 401])
async def test_a_run_shows_the_generator_that_order(size: int, scripted: Script) -> None:
    script = scripted(verifier=STOP, executor=f'{{"text": "{"x" * size}"}}')
    await solve(script)
    *examples, asked = (message.text for message in script.asked("generator")[0] if message.type == "human")
    assert [text.startswith("Question: ") for text in examples] == [True] * len(ANSWERED)
    assert asked.startswith("Question: ") == (size == 400)


def test_each_example_answer_is_what_its_turns_found() -> None:
    for memory, reply in ANSWERED.values():
        [turn] = memory
        with redirect_stdout(StringIO()) as printed:
            exec(turn.action.arguments["call"], {})
        assert printed.getvalue().strip() == turn.action.result.output
        assert answer_text.parse(reply) in turn.action.result.output


def test_examples_stand_before_the_run_and_attachments_in_it() -> None:
    image = {"type": "image", "url": "https://example.org/a.png"}
    state = State(question="Q?", messages=[HumanMessage([{"type": "text", "text": "Q?"}, image])])
    shown = verifier.conversation_of(state, CONTEXT, TURN.plan, TURN.action)
    assert [isinstance(message.content, list) for message in shown] == [False] * (len(shown) - 1) + [True]
    assert all(verifier.parse(message.text).signal for message in shown if message.type == "ai")
    own = CONTEXT.model_copy(update={"prompts": {"verifier": "Judge."}})
    assert len(verifier.conversation_of(state, own, TURN.plan, TURN.action)) == 2
    assert len(generator.messages("Q?", [TURN], "Answer.")) == 2 < len(generator.messages("Q?", [TURN], generator.LEAN))
