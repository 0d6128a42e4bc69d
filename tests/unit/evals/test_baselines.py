"""The baselines: what a policy writes is read, and each graph gives a trace as AgentFlow's does."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.evals.agents import agent_graph
from agentflow.evals.baselines import direct, react, team
from agentflow.evals.baselines.react import read_answer, read_call
from agentflow.graph.context import Context
from agentflow.graph.models.spec import ModelError
from agentflow.graph.run.runner import run
from agentflow.graph.run.task import Task
from agentflow.graph.run.trace import Trace
from agentflow.graph.state import Action, Plan, Turn, Verdict
from agentflow.nodes.demonstrations import ROLLS, SIGNS
from agentflow.nodes.planner import EXAMPLES
from agentflow.tools.catalogue import standard_cards
from agentflow.tools.encyclopedia.corpus import Passage
from agentflow.tools.encyclopedia.corpus_build import build
from agentflow.tools.result import ToolResult
from tests.cases import table
from tests.fake_openai import FakeOpenAI, Fault, completion

CARDS = standard_cards(["base_generator", "python_coder", "wikipedia_search"])
PROGRAM = "Tool: python_coder\n```python\nprint(6 * 7)\n```"


@pytest.mark.parametrize(("text", "answer", "called", "arguments"), table(__file__, "react.txt"))
def test_the_first_call_or_the_answer_is_read_and_an_invented_result_is_not(
    text: str, answer: str | None, called: str | None, arguments: dict[str, Any] | None
) -> None:
    assert read_answer(text, CARDS) == answer
    plan, found = read_call(text, CARDS)
    assert answer or (plan.error or plan.tool, found) == (called, arguments)


BLOCK = "```python\nprint(6 * 7)\n```"


@pytest.mark.parametrize("called", [BLOCK, PROGRAM, 'Tool: python_coder\n{"code": "print(6 * 7)"}'])
def test_an_answer_counts_beside_the_call_that_was_made_and_not_before_its_result(called: str) -> None:
    action = Action(arguments={"code": "print(6 * 7)"}, result=ToolResult(status="ok", output="42"))
    plan, verdict = Plan(text=f"{called}\nAnswer: 43", tool="python_coder"), Verdict(analysis="", signal="continue")
    memory = [Turn(turn=1, plan=plan, action=action, verdict=verdict)]
    assert [one.text for one in react.messages("What is 6 times 7?", memory, CARDS)[2:]] == [called, "Result: 42"]
    assert read_answer(f"{called}\nAnswer: 42", CARDS, memory) == "42"
    assert read_answer("```python\nprint(7)\n```\nAnswer: 42", CARDS, memory) is None


def test_a_small_model_sees_example_runs_of_the_tools_that_there_are() -> None:
    [instructions, *_, question] = react.messages("What is 6 times 7?", [], CARDS, "lean")
    assert (instructions.type, question.text) == ("system", "Question: What is 6 times 7?")
    assert len(react.messages("What is 6 times 7?", [], CARDS)) == 2
    assert [*react.RUNS] == [*EXAMPLES]
    for question, texts in react.RUNS.items():
        tool = EXAMPLES[question][0]
        shown = [one.text for one in react.messages("", [], standard_cards([tool]), "lean")[1:-1]]
        assert "\n".join([f"Question: {question}", *texts]) in "\n".join(shown)
        *calls, answer = texts[::2]
        assert [read_call(call, CARDS)[0].tool for call in calls] == [tool] * len(calls)
        assert all(read_call(call, CARDS)[1] and read_answer(call, CARDS) is None for call in calls)
        assert read_answer(answer, CARDS)


def test_a_program_is_no_call_where_none_can_be_run() -> None:
    text = "```python\nprint(6 * 7)\n```\nAnswer: 42"
    assert read_answer(text, standard_cards(["wikipedia_search"])) == "42"


@given(st.text(alphabet=st.sampled_from(list("Tol: answer<>{}\"'`\n#*")) | st.characters(), max_size=80))
def test_any_text_is_read(text: str) -> None:
    read_answer(text, CARDS)
    plan, _ = read_call(text, CARDS)
    assert isinstance(plan, Plan)


def reply(body: dict[str, Any]) -> str:
    """Plays every part: computes first, then answers, and the critic approves of an answer only."""
    system, *_ = (message["content"] for message in body["messages"])
    conversation = "\n".join(message["content"] for message in body["messages"][1:])
    if system == direct.PROMPT:
        return "6 times 7 is 42.\nAnswer: 42"
    if system.startswith(team.TEAM.format(role="planner")):
        return "Compute it." if "Result: 42" not in conversation else "Answer."
    if system.startswith(team.TEAM.format(role="critic")):
        return "APPROVE" if "the answer 42" in conversation else "The answer is missing. Do not APPROVE yet."
    return PROGRAM if "Result: 42" not in conversation else "Answer: 42"


TASK = Task.from_question("What is 6 times 7?")


async def solved(name: str, script: Any = reply, **settings: Any) -> Trace:
    with FakeOpenAI(script) as server:
        context = Context(model=f"vllm:any@{server.base_url}", tools=["python_coder"], **settings)
        return await run(agent_graph(name), TASK, context)  # type: ignore[arg-type]


REACTED = [text for asked in (ROLLS, SIGNS) for text in (f"Question: {asked}", *react.RUNS[asked])]
SOLVED = [text for asked, answer in direct.SOLUTIONS.items() for text in (f"Question: {asked}", answer)]


@pytest.mark.parametrize(("profile", "shown"), [("lean", True), ("paper", False)])
@pytest.mark.parametrize(("name", "runs"), [("react", REACTED), ("direct", SOLVED)])
async def test_examples_are_shown_in_the_lean_profile_alone(
    name: str, runs: list[str], profile: Any, shown: bool
) -> None:
    asked: list[list[str]] = []

    def script(body: dict[str, Any]) -> str:
        asked.append([message["content"] for message in body["messages"]])
        return "Answer: 42"

    await solved(name, script, profile=profile)
    assert asked[0][1:-1] == (runs if shown else [])


async def test_the_model_alone_takes_the_prompt_of_a_run_without_examples() -> None:
    asked: list[list[str]] = []

    def script(body: dict[str, Any]) -> str:
        asked.append([message["content"] for message in body["messages"]])
        return "Answer: 42"

    await solved("direct", script, profile="lean", prompts={"generator": "Reason step by step."})
    assert asked == [["Reason step by step.", f"Question: {TASK.question}"]]


FOREVER = "Tool: python_coder\n```python\nprint(1)\n```"
REFUSED = (400, {"error": {"message": "no"}})


@pytest.mark.parametrize(
    ("name", "script", "status", "turns", "calls"),
    [
        ("direct", reply, "answered", 0, 1),
        ("react", reply, "answered", 1, 2),
        ("react", lambda _: f"{PROGRAM}\nAnswer: 42", "answered", 1, 2),
        ("team", reply, "answered", 2, 6),
        ("react", lambda _: FOREVER, "out_of_turns", 2, 3),
        ("team", lambda _: FOREVER, "out_of_turns", 2, 6),
        ("direct", lambda _: REFUSED, "failed", 0, 1),
        ("react", lambda _: REFUSED, "failed", 0, 1),
        ("team", lambda _: REFUSED, "failed", 0, 1),
    ],
)
async def test_each_leaves_a_trace_with_what_it_did(
    name: str, script: Any, status: str, turns: int, calls: int
) -> None:
    trace = await solved(name, script, max_turns=2)
    assert (trace.status, len(trace.turns), trace.usage.calls) == (status, turns, calls)
    if status == "answered":
        assert trace.answer == "42"
        assert [(one.tool, one.result.output) for one in trace.turns[:1]] == [("python_coder", "42")][:turns]


def native(body: dict[str, Any], name: str = "python_coder", after: str = "Answer: 42") -> Any:
    """Asks for a program at first, as a server with native tool calls does, then answers, or asks for it for ever."""
    if after and body["messages"][-1]["role"] == "tool":
        return after
    function = {"name": name, "arguments": json.dumps({"code": "print(6 * 7)"})}
    calls = [{"id": "same", "type": "function", "function": function}]
    whole = completion(body["model"], "", "tool_calls")
    whole["choices"][0]["message"]["tool_calls"] = calls
    return 200, whole


@pytest.mark.parametrize(
    ("script", "status", "results", "calls"),
    [
        (native, "answered", [(None, "42")], 2),
        (partial(native, name="calculator"), "answered", [("unknown_tool", "there is no tool 'calculator'")], 2),
        (partial(native, after=""), "out_of_turns", [(None, "42")] * 2, 3),
        (lambda _: "Answer: 42", "answered", [], 1),
        (lambda _: REFUSED, "failed", [], 1),
    ],
)
async def test_langchains_agent_leaves_a_trace_as_the_others_do(
    script: Any, status: str, results: list[tuple[str | None, str]], calls: int
) -> None:
    trace = await solved("create_agent", script, max_turns=2)
    assert (trace.status, trace.usage.calls) == (status, calls)
    assert [(turn.result.error, turn.result.output) for turn in trace.turns] == results
    assert all(turn.arguments == {"code": "print(6 * 7)"} for turn in trace.turns)
    assert trace.answer == ("42" if status == "answered" else "")
    assert set(trace.usage.modules) == (set() if status == "failed" else {"planner"})
    assert isinstance(trace.failure, ModelError) is (status == "failed")


@pytest.mark.parametrize("name", ["agentflow", "create_agent", "direct", "react", "team"])
async def test_a_run_that_ends_at_its_time_without_an_answer_failed_and_is_not_merely_wrong(name: str) -> None:
    trace = await solved(name, lambda _: Fault.HANG, max_seconds=0.5)
    assert (trace.status, trace.cause, trace.answer) == ("failed", "limit", "")


async def test_rag_searches_once_with_the_question_and_answers_from_what_it_finds(tmp_path: Path) -> None:
    build(tmp_path / "facts.db", [Passage("Arithmetic", "6 times 7 is 42.")])

    asked: list[list[str]] = []

    def answer(body: dict[str, Any]) -> str:
        asked.append([message["content"] for message in body["messages"]])
        return f"Answer: {asked[-1][-1].split(' is ')[1].split('.')[0]}"

    with FakeOpenAI(answer) as server:
        context = Context(
            model=f"vllm:any@{server.base_url}",
            tools=["wikipedia_search"],
            corpus=str(tmp_path / "facts.db"),
            profile="lean",
        )
        trace = await run(agent_graph("rag"), TASK, context)
        await run(agent_graph("rag"), TASK, context.model_copy(update={"profile": "paper"}))
        lacking = await run(agent_graph("rag"), TASK, context.model_copy(update={"tools": ["python_coder"]}))
    assert (trace.answer, trace.status, trace.usage.calls) == ("42", "answered", 1)
    assert [turn.arguments for turn in trace.turns] == [{"query": TASK.question}]
    assert (lacking.status, lacking.usage.calls) == ("failed", 0)
    [[_, example, reply, _], plain] = asked
    assert (example.endswith(f"Question: {direct.OPERA}"), reply) == (True, direct.SOLUTIONS[direct.OPERA])
    assert len(plain) == 2
