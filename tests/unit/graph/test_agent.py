"""The compiled agent as a whole, with scripted models and small tools."""

import asyncio
import re
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.decisions import BaseDecisionModel, ClassifierResponse, NoulAnswer
from langchain_core.messages import BaseMessage
from langchain_core.tools import BaseTool, StructuredTool, ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import ValidationError

from agentflow.graph.agent import build_graph
from agentflow.graph.context import Context
from agentflow.graph.models.spec import ModelError
from agentflow.graph.state import Action, State, Verdict
from agentflow.nodes.generator import OUT_OF_TIME
from agentflow.nodes.verifier import IS_ANSWERED
from agentflow.tools.result import ErrorClass
from tests.cases import sections
from tests.clock import HOUR, Clock
from tests.failing import fails
from tests.fake_openai import FakeOpenAI, Fault
from tests.scripted import CONTINUE, PLAN, STOP, THREAD, Reply, Script, Scripted, echo, question
from tests.waiting import LAST_RESORT


async def solve(script: Scripted, *tools: BaseTool, **fields: Any) -> State:
    found = await build_graph([echo, *tools]).ainvoke(question(), context=Context(model=script.spec, **fields))
    return State.model_validate(found)


# The loop


async def test_a_run_of_two_turns(scripted: Script) -> None:
    script = scripted(planner=[PLAN, PLAN.replace("hello", "bye")], verifier=[CONTINUE, STOP])
    state = await solve(script)
    assert (state.status, state.answer, state.question) == ("answered", "hello", "Which word?")
    assert [turn.turn for turn in state.memory] == [1, 2]
    first, second = state.memory
    assert (first.plan.tool, first.plan.context, second.plan.context) == ("echo", "hello", "bye")
    assert first.action == Action(arguments={"text": "hello"}, result=first.action.result)
    assert (first.action.result.status, first.action.result.output) == ("ok", "hello")
    assert [turn.verdict.signal for turn in state.memory] == ["continue", "stop"]
    assert [message.type for message in state.messages] == ["human", "ai", "tool", "ai", "tool", "ai"]
    assert [name for name, _ in script.calls] == [
        "analyst", "planner", "executor", "verifier", "planner", "executor", "verifier", "generator",
    ]  # fmt: skip


async def test_a_run_takes_no_thread(scripted: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    """LangGraph takes one for each conditional edge that is a plain function."""
    agent, context, taken = build_graph([echo]), Context(model=scripted(verifier=STOP).spec), list[object]()
    await agent.ainvoke(question(), context=context)  # loads models and tools
    monkeypatch.setattr(asyncio.BaseEventLoop, "run_in_executor", lambda *given: taken.append(given))
    assert (await agent.ainvoke(question(), context=context))["status"] == "answered"
    assert not taken


async def test_reference_bug_the_verdict_is_not_in_memory(scripted: Script) -> None:
    script = scripted(verifier=["Analysis: The year is missing.\nVerdict: continue", STOP])
    await solve(script)
    before, after = script.asked("planner")
    assert after[: len(before)] == before
    assert "Result: hello\nVerifier: The year is missing." in after[-1].text
    assert after[-2].text == PLAN
    assert "The year is missing." in script.asked("verifier")[1][2].text


ENDS, FAILURES = (
    [pytest.param(*case, id=name) for name, *case in part] for part in sections(__file__, "agent.txt").values()
)


@pytest.mark.parametrize(("replies", "max_turns", "status", "turns"), ENDS)
async def test_a_run_ends_by_its_verdicts_its_plans_and_its_turns(
    replies: dict[str, Reply], max_turns: int, status: str, turns: int, scripted: Script
) -> None:
    script = scripted(**replies)
    state = await solve(script, max_turns=max_turns)
    assert (state.status, len(state.memory)) == (status, turns)
    left = [int(conversation[-1].text.rpartition("Turns left: ")[2]) for conversation in script.asked("planner")]
    assert left == list(range(max_turns, max_turns - turns, -1))


# Replies that cannot be read


async def test_three_identical_plans_that_cannot_be_read_end_the_run(scripted: Script) -> None:
    script = scripted(planner="I cannot plan.", verifier=CONTINUE, generator="never")
    state = await solve(script)
    assert (state.status, len(state.memory)) == ("no_plan", 3)
    assert f"agentflow doctor --model {script.spec}" in state.answer
    assert state.messages[-1].text == state.answer
    assert not script.asked("generator")


async def test_the_generator_reads_none_of_our_texts_as_facts(scripted: Script) -> None:
    """A user was once answered with "The plan had no line 'Sub-Goal: ...'"."""
    script = scripted(
        planner=["no plan", PLAN, PLAN],
        executor=["no call", '{"text": "hello"}'],
        verifier=["no verdict", CONTINUE, "The word is hello."],
    )
    state = await solve(script, max_turns=3)
    assert [turn.action.result.error for turn in state.memory] == [ErrorClass.BAD_PLAN, ErrorClass.BAD_ARGUMENTS, None]
    assert script.asked("generator")[0][1].text == (
        "Question: Which word?\n\nTurn 3\nSub-Goal: repeat it\nTool: echo\nResult: hello\nVerifier: The word is hello."
    )
    planner_reads = script.asked("planner")[-1]
    assert state.memory[0].plan.problem in planner_reads[3].text
    assert "no call" in planner_reads[5].text


# Time


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.mark.parametrize("module", ["analyst", "planner", "executor", "verifier", "generator"])
async def test_reference_bug_time_is_tested_only_between_steps(module: str, scripted: Script, clock: Clock) -> None:
    script = scripted(**{module: clock.hang})
    state = await solve(script, max_seconds=HOUR)
    assert (state.status, len(state.memory)) == ("out_of_time", 1)
    assert state.answer == state.messages[-1].text == (OUT_OF_TIME if module == "generator" else "hello")
    if module == "executor":  # a call that came too late is no fact
        assert script.asked("generator")[0][1].text == "Question: Which word?"


async def test_a_hanging_tool_that_blocks_its_thread_is_not_waited_for(scripted: Script, clock: Clock) -> None:
    release, loop = threading.Event(), asyncio.get_running_loop()

    @tool
    def blocking(text: str) -> str:
        """Blocks."""
        loop.call_soon_threadsafe(clock.advance, loop, HOUR)
        assert release.wait(LAST_RESORT)
        return "late"

    try:
        state = await solve(scripted(planner=PLAN.replace("echo", "blocking")), blocking, max_seconds=HOUR)
    finally:
        release.set()
    assert (state.memory[0].action.result.error, state.answer) == (ErrorClass.TIMEOUT, "hello")


@pytest.mark.parametrize("invoke", ["ainvoke", "invoke"])
async def test_the_seconds_bound_a_run_whose_endpoint_hangs(invoke: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It once took 77 seconds where 4 were allowed."""
    monkeypatch.setenv("VLLM_API_KEY", "none")
    with FakeOpenAI(lambda _: Fault.HANG) as server:
        graph, asked = build_graph(context=Context(model=f"vllm:m@{server.base_url}", max_seconds=0.5)), question()
        run = graph.ainvoke(asked) if invoke == "ainvoke" else asyncio.to_thread(graph.invoke, asked)
        found = await run
    assert (found["status"], found["answer"], len(found["memory"])) == ("out_of_time", OUT_OF_TIME, 1)


async def test_a_part_of_the_time_is_kept_for_the_answer(scripted: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1000.0)
    assert (await solve(scripted(), max_seconds=50)).deadline == 1040
    assert (await solve(scripted(), max_seconds=3000)).deadline == 3940


# Failures are turns that the planner sees


def failing(name: str, act: Callable[[], str]) -> BaseTool:
    async def call(text: str) -> str:
        return act()

    return StructuredTool.from_function(coroutine=call, name=name, description="Fails.")


def throw(error: Exception) -> Any:
    raise error


FAILING = [
    failing("broken", lambda: throw(ZeroDivisionError("no\nlines"))),
    failing("refusing", lambda: throw(ToolException("not today"))),
    failing("silent", lambda: "  \n"),
]


@pytest.mark.parametrize(("replies", "error", "message"), FAILURES)
async def test_a_failure_is_a_turn_of_its_class(
    replies: dict[str, Reply], error: ErrorClass, message: str, scripted: Script
) -> None:
    def fail(_: list[BaseMessage]) -> str:
        return str(throw(RuntimeError("out of order")))

    replies = {name: fail if reply == "raise" else reply for name, reply in replies.items()}
    planner = replies.pop("planner", PLAN)
    script = scripted(planner=[planner, planner], verifier=[CONTINUE, STOP], **replies)
    state = await solve(script, *FAILING, tools=["base_generator"])
    result = state.memory[0].action.result
    assert (result.status, result.error) == ("error", error)
    assert message in result.output
    assert len(result.output.splitlines()) == 1
    assert f"Failed ({error}): {result.output}" in script.asked("planner")[1][-1].text
    assert (state.status, state.answer) == ("answered", "hello")


@pytest.mark.parametrize("module", ["analyst", "planner", "executor", "verifier", "generator"])
async def test_a_model_that_fails_is_a_model_error(module: str, scripted: Script) -> None:
    def fail(_: list[BaseMessage]) -> str:
        raise RuntimeError("out of\norder")

    with fails(ModelError, "model_failed", "out of order", configuration=False):
        await solve(scripted(**{module: fail}))


@pytest.mark.parametrize(
    ("asked", "fields", "code"),
    [
        (question(), {"models": {"verifier": "nobody:at-home"}}, "unknown_provider"),
        (question(), {"tools": ["magic"]}, "unknown_tool"),
        *(({"messages": messages}, {}, "no_question") for messages in ([], [("user", "")], [("user", " \n")])),
    ],
)
@pytest.mark.parametrize("waits", [True, False])
async def test_what_cannot_be_run_is_a_fault_of_the_configuration(
    asked: dict[str, Any], fields: dict[str, Any], code: str, waits: bool, scripted: Script
) -> None:
    graph, context = build_graph([echo]), Context(model=scripted().spec, **fields)
    with fails(ModelError, code, configuration=True):
        await (
            asyncio.to_thread(graph.invoke, asked, context=context) if waits else graph.ainvoke(asked, context=context)
        )


# Memory


async def test_a_long_result_is_shortened_once_and_the_prefix_holds(scripted: Script) -> None:
    script = scripted(executor='{"text": "' + "x" * 5000 + '"}', verifier=[CONTINUE, CONTINUE, STOP])
    state = await solve(script, max_turns=5, memory_tokens=500)
    output = state.memory[0].action.result.output
    assert state.messages[2].text == output
    assert len(output) < 500
    assert "[... 4600 characters cut ...]" in output  # 500 tokens over 5 turns, four characters each
    for module in ("planner", "verifier"):
        for before, after in zip(script.asked(module), script.asked(module)[1:], strict=False):
            assert after[: len(before)] == before
    assert output in script.asked("planner")[1][-1].text
    assert output in script.asked("verifier")[0][-1].text
    assert output in script.asked("generator")[0][-1].text


def numbered() -> dict[str, Reply]:
    """Replies that carry the number of the question that they belong to."""

    def number(conversation: list[BaseMessage]) -> str:
        return re.findall(r"#\d+#", conversation[1].text)[0]

    async def later(reply: str) -> str:
        await asyncio.sleep(0.001 * (hash(reply) % 5))
        return reply

    return {
        "analyst": lambda talk: later(f"About {number(talk)}."),
        "planner": lambda talk: later(f"Sub-Goal: repeat {number(talk)}\nTool: echo\nContext: {number(talk)}"),
        "executor": lambda talk: later(f'{{"text": "{number(talk)}"}}'),
        "verifier": lambda talk: later(
            f"Analysis: {number(talk)} is said.\nVerdict: {'stop' if len(talk) > 3 else 'continue'}"
        ),
        "generator": lambda talk: later(f"Answer: {number(talk)}"),
    }


async def test_reference_bug_memory_leaks_between_rollouts(scripted: Script) -> None:
    """Fifty questions at a time on one compiled graph: nobody reads a word of another's."""
    script = scripted(**numbered())
    graph = build_graph([echo])
    questions = [question(f"What is #{number}#?") for number in range(50)]
    found = await asyncio.gather(*(graph.ainvoke(given, context=Context(model=script.spec)) for given in questions))
    for number, state in enumerate(map(State.model_validate, found)):
        assert (state.answer, len(state.memory)) == (f"#{number}#", 2)
        assert set(re.findall(r"#\d+#", state.model_dump_json())) == {f"#{number}#"}
    for _, conversation in script.calls:
        assert len(set(re.findall(r"#\d+#", str(conversation)))) == 1


# LangGraph citizen


async def test_the_state_survives_the_checkpointer(scripted: Script) -> None:
    @tool
    async def half(number: int, text: str) -> str:
        """Halves a number, which may be larger than 64 bits."""
        return f"{number // 2} {text}"

    arguments = '{"number": 20000000000000000000000, "text": "\\ud83d 東京"}'
    plan = PLAN.replace("echo", "half")
    script = scripted(planner=["nothing", plan], executor=arguments, verifier=[CONTINUE, STOP])
    graph = build_graph([half], checkpointer=InMemorySaver())
    given = await graph.ainvoke(question(), THREAD, context=Context(model=script.spec))
    kept = (await graph.aget_state(THREAD)).values
    assert kept["memory"] == given["memory"]
    assert kept["memory"][1].action.result.output == "10000000000000000000000 ? 東京"
    assert isinstance(kept["verdict"], Verdict)
    assert kept["memory"][0].plan.error is ErrorClass.BAD_PLAN
    assert State.model_validate(kept) == State.model_validate(given)


class Doubter(BaseDecisionModel):
    """A decision model that is sure once a result holds a word."""

    model: str = "doubter"
    word: str

    @property
    def _provider(self) -> str:
        return "tests"

    def _classify(self, state: Any, questions: Any) -> ClassifierResponse:
        assert {one.instructions for one in questions.values()} == {IS_ANSWERED}
        sure = f"Result: {self.word}" in state[-1].text
        answers = {name: NoulAnswer(type="noul", noul=0.9 if sure else 0.2) for name in questions}
        return ClassifierResponse(model=self.model, answers=dict(answers))


async def test_a_decision_model_can_be_the_verifier(scripted: Script) -> None:
    script = scripted(planner=[PLAN.replace("hello", "hm"), PLAN], executor=['{"text": "hm"}', '{"text": "hello"}'])
    state = await solve(script, models={"verifier": Doubter(word="hello")})
    verdicts = [(turn.verdict.signal, turn.verdict.probability) for turn in state.memory]
    assert verdicts == [("continue", 0.2), ("stop", 0.9)]
    assert script.asked("verifier") == []
    with pytest.raises(ValidationError, match="not the planner"):
        Context(models={"planner": Doubter(word="hello")})
