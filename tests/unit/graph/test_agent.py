"""The compiled agent as a whole, with scripted models and small tools."""

import asyncio
import re
import threading
import time
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from langchain_core.tools import BaseTool, ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver

from agentflow.graph.agent import build_graph
from agentflow.graph.context import Context
from agentflow.graph.conversation import exchanged
from agentflow.graph.models.spec import ModelError
from agentflow.graph.state import Action, Plan, State, Turn, Verdict
from agentflow.nodes.generator import OUT_OF_TIME
from agentflow.tools.result import ErrorClass
from tests.clock import HOUR, Clock
from tests.failing import fails
from tests.fake_openai import FakeOpenAI, Fault
from tests.scripted import CONTINUE, PLAN, STOP, Reply, Script, Scripted, echo
from tests.waiting import LAST_RESORT


def question(text: str = "Which word?") -> dict[str, Any]:
    return {"messages": [("user", text)]}


def settings(script: Scripted, **fields: Any) -> Context:
    return Context(model=script.spec, **fields)


async def solve(script: Scripted, *tools: BaseTool, **fields: Any) -> State:
    found = await build_graph([echo, *tools]).ainvoke(question(), context=settings(script, **fields))
    return State.model_validate(found)


async def hang(_: list[BaseMessage]) -> str:
    await asyncio.Event().wait()
    return "never"


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


async def test_reference_bug_the_verdict_is_not_in_memory(scripted: Script) -> None:
    script = scripted(verifier=["Analysis: The year is missing.\nVerdict: continue", STOP])
    await solve(script)
    before, after = script.asked("planner")
    assert after[: len(before)] == before
    assert "Result: hello\nVerifier: The year is missing." in after[-1].text
    assert after[-2].text == PLAN
    assert "The year is missing." in script.asked("verifier")[1][2].text


async def test_the_verifiers_signal_decides(scripted: Script) -> None:
    assert len((await solve(scripted(verifier=STOP))).memory) == 1
    assert len((await solve(scripted(verifier=[CONTINUE, CONTINUE, STOP]))).memory) == 3


async def test_turns_run_out(scripted: Script) -> None:
    script = scripted(verifier=CONTINUE)
    state = await solve(script, max_turns=3)
    assert (state.status, len(state.memory), state.answer) == ("out_of_turns", 3, "hello")
    assert [conversation[-1].text.splitlines()[-1] for conversation in script.asked("planner")] == [
        "Turns left: 3", "Turns left: 2", "Turns left: 1",
    ]  # fmt: skip


async def test_a_stop_in_the_last_turn_is_an_answer(scripted: Script) -> None:
    assert (await solve(scripted(verifier=STOP), max_turns=1)).status == "answered"


async def test_the_most_turns_that_can_be_set_are_run(scripted: Script) -> None:
    state = await solve(scripted(verifier=CONTINUE), max_turns=100)
    assert (state.status, len(state.memory)) == ("out_of_turns", 100)


# Replies that cannot be read


async def test_three_identical_plans_that_cannot_be_read_end_the_run(scripted: Script) -> None:
    script = scripted(planner="I cannot plan.", verifier=CONTINUE, generator="never")
    state = await solve(script)
    assert (state.status, len(state.memory)) == ("no_plan", 3)
    assert f"agentflow doctor --model {script.spec}" in state.answer
    assert state.messages[-1].text == state.answer
    assert not script.asked("generator")


async def test_a_planner_that_varies_may_go_on(scripted: Script) -> None:
    state = await solve(scripted(planner=["a", "b", "a", "a", PLAN], verifier=[CONTINUE] * 4 + [STOP]))
    assert (state.status, len(state.memory), state.answer) == ("answered", 5, "hello")


async def test_a_run_that_ends_without_any_plan_says_so(scripted: Script) -> None:
    assert (await solve(scripted(planner=["a", "b"], verifier=CONTINUE), max_turns=2)).status == "no_plan"
    assert (await solve(scripted(planner=[PLAN, "b"], verifier=CONTINUE), max_turns=2)).status == "out_of_turns"


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


async def test_a_call_that_came_too_late_is_no_fact(scripted: Script, clock: Clock) -> None:
    script = scripted(executor=clock.hang)
    assert (await solve(script, max_seconds=HOUR)).status == "out_of_time"
    assert script.asked("generator")[0][1].text == "Question: Which word?"


# Time


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.mark.parametrize("module", ["analyst", "planner", "executor", "verifier"])
async def test_reference_bug_time_is_tested_only_between_steps(module: str, scripted: Script, clock: Clock) -> None:
    state = await solve(scripted(**{module: clock.hang}), max_seconds=HOUR)
    assert (state.status, state.answer) == ("out_of_time", "hello")
    assert len(state.memory) == 1


async def test_a_hanging_tool_is_cut_short(scripted: Script, clock: Clock) -> None:
    @tool
    async def slow(text: str) -> str:
        """Never returns."""
        return await clock.hang()

    script = scripted(planner=PLAN.replace("echo", "slow"), verifier=CONTINUE)
    state = await solve(script, slow, max_seconds=HOUR)
    assert (state.status, state.answer) == ("out_of_time", "hello")
    assert state.memory[0].action.result.error == ErrorClass.TIMEOUT


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


async def test_the_planner_reads_why_a_turn_ended(scripted: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentflow.nodes.executor.TOOL_SECONDS", 0.05)

    @tool
    async def slow(text: str) -> str:
        """Never returns."""
        return await hang([])

    script = scripted(planner=[PLAN.replace("echo", "slow"), PLAN], verifier=[CONTINUE, STOP])
    state = await solve(script, slow)
    assert "Failed (timeout): slow did not finish in 0.05 seconds" in script.asked("planner")[1][-1].text
    assert (state.status, state.memory[1].action.result.output) == ("answered", "hello")


async def test_a_hanging_generator_leaves_an_answer_that_tells(scripted: Script, clock: Clock) -> None:
    state = await solve(scripted(generator=clock.hang), max_seconds=HOUR)
    assert (state.status, state.answer, state.messages[-1].text) == ("out_of_time", OUT_OF_TIME, OUT_OF_TIME)


@pytest.mark.parametrize("invoke", ["ainvoke", "invoke"])
async def test_the_seconds_bound_a_run_whose_endpoint_hangs(invoke: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It once took 77 seconds where 4 were allowed."""
    monkeypatch.setenv("VLLM_API_KEY", "none")
    with FakeOpenAI(lambda _: Fault.HANG) as server:
        graph, asked = build_graph(context=Context(model=f"vllm:m@{server.base_url}", max_seconds=0.5)), question()
        async with asyncio.timeout(30):
            run = graph.ainvoke(asked) if invoke == "ainvoke" else asyncio.to_thread(graph.invoke, asked)
            found = await run
    assert (found["status"], found["answer"], len(found["memory"])) == ("out_of_time", OUT_OF_TIME, 1)


async def test_a_part_of_the_time_is_kept_for_the_answer(scripted: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1000.0)
    assert (await solve(scripted(), max_seconds=50)).deadline == 1040
    assert (await solve(scripted(), max_seconds=3000)).deadline == 3940


# Failures are turns that the planner sees


@tool
async def broken(text: str) -> str:
    """Raises."""
    raise ZeroDivisionError("no\nlines")


@tool
async def refusing(text: str) -> str:
    """Raises what LangChain's tools raise."""
    raise ToolException("not today")


@tool
async def silent(text: str) -> str:
    """Has nothing to say."""
    return "  \n"


FAILURES: dict[str, tuple[dict[str, Reply], ErrorClass, str]] = {
    "no plan": ({"planner": "I don't know."}, ErrorClass.BAD_PLAN, "the plan had no line 'Sub-Goal: ...'"),
    "unknown tool": ({"planner": PLAN.replace("echo", "oracle")}, ErrorClass.UNKNOWN_TOOL, "there is no tool 'oracle'"),
    "two tools": ({"planner": PLAN.replace("echo", "echo, broken")}, ErrorClass.UNKNOWN_TOOL, "several tools"),
    "tool not enabled": (
        {"planner": PLAN.replace("echo", "google_search")},
        ErrorClass.UNKNOWN_TOOL,
        "there is no tool 'google_search'; the tools are base_generator",
    ),
    "unreadable call": (
        {"executor": "I would\nrather not."},
        ErrorClass.BAD_ARGUMENTS,
        'the arguments could not be read: "I would rather not."',
    ),
    "bad arguments": (
        {"executor": '{"text": ["a"]}'},
        ErrorClass.BAD_ARGUMENTS,
        "text: Input should be a valid string",
    ),
    "exception": (
        {"planner": PLAN.replace("echo", "broken")},
        ErrorClass.TOOL_ERROR,
        "ZeroDivisionError: no lines",
    ),
    "LangChain's exception": ({"planner": PLAN.replace("echo", "refusing")}, ErrorClass.TOOL_ERROR, "not today"),
    "nothing": ({"planner": PLAN.replace("echo", "silent")}, ErrorClass.EMPTY_RESULT, "silent returned nothing"),
    "the tool's model": (
        {"planner": PLAN.replace("echo", "base_generator"), "executor": '{"query": "q"}', "tools": "raise"},
        ErrorClass.MODEL_ERROR,
        "out of order",
    ),
}


@pytest.mark.parametrize(("replies", "error", "message"), FAILURES.values(), ids=FAILURES)
async def test_a_failure_is_a_turn_of_its_class(
    replies: dict[str, Reply], error: ErrorClass, message: str, scripted: Script
) -> None:
    def fail(_: list[BaseMessage]) -> str:
        raise RuntimeError("out of order")

    replies = {name: fail if reply == "raise" else reply for name, reply in replies.items()}
    planner = replies.pop("planner", PLAN)
    script = scripted(planner=[planner, planner], verifier=[CONTINUE, STOP], **replies)
    state = await solve(script, broken, refusing, silent, tools=["base_generator"])
    result = state.memory[0].action.result
    assert (result.status, result.error) == ("error", error)
    assert message in result.output
    assert len(result.output.splitlines()) == 1
    assert f"Failed ({error}): {result.output}" in script.asked("planner")[1][-1].text
    assert (state.status, state.answer) == ("answered", "hello")


async def test_the_classes_of_failure_are_disjoint() -> None:
    others = {ErrorClass.TIMEOUT, ErrorClass.REFUSED, ErrorClass.UNCERTAIN}
    assert {error for _, error, _ in FAILURES.values()} | others == set(ErrorClass)


async def test_an_unreadable_verdict_goes_on(scripted: Script) -> None:
    script = scripted(verifier=["The bus stop is near.", STOP])
    state = await solve(script)
    assert [turn.verdict.signal for turn in state.memory] == ["continue", "stop"]
    assert "The verdict could not be read" in script.asked("planner")[1][-1].text


@pytest.mark.parametrize("module", ["analyst", "planner", "executor", "verifier", "generator"])
async def test_a_model_that_fails_is_a_model_error(module: str, scripted: Script) -> None:
    def fail(_: list[BaseMessage]) -> str:
        raise RuntimeError("out of\norder")

    with fails(ModelError, "model_failed", "out of order", configuration=False):
        await solve(scripted(**{module: fail}))


async def test_a_spec_that_is_wrong_is_a_model_error(scripted: Script) -> None:
    script = scripted()
    with fails(ModelError, "unknown_provider", "nobody", configuration=True):
        await solve(script, models={"verifier": "nobody:at-home"})


async def test_a_tool_that_does_not_exist_is_a_model_error(scripted: Script) -> None:
    with fails(ModelError, "unknown_tool", "magic", configuration=True):
        await solve(scripted(), tools=["magic"])


@pytest.mark.parametrize("messages", [[], [("user", "")], [("user", " \n")]])
async def test_no_question_is_a_model_error(messages: list[tuple[str, str]], scripted: Script) -> None:
    with fails(ModelError, "no_question", configuration=True):
        await build_graph().ainvoke({"messages": messages}, context=settings(scripted()))


# Memory


async def test_a_long_result_is_shortened_once_and_the_prefix_holds(scripted: Script) -> None:
    script = scripted(executor='{"text": "' + "x" * 5000 + '"}', verifier=[CONTINUE, CONTINUE, STOP])
    state = await solve(script, max_turns=5, memory_tokens=500)
    output = state.memory[0].action.result.output
    assert len(output) < 500
    assert "[... 4600 characters cut ...]" in output  # 500 tokens over 5 turns, four characters each
    for module in ("planner", "verifier"):
        for before, after in zip(script.asked(module), script.asked(module)[1:], strict=False):
            assert after[: len(before)] == before
    assert output in script.asked("planner")[1][-1].text
    assert output in script.asked("verifier")[0][-1].text
    assert output in script.asked("generator")[0][-1].text


async def test_a_new_question_on_an_old_thread_starts_afresh(scripted: Script) -> None:
    script = scripted(verifier=[CONTINUE, STOP])
    graph = build_graph([echo], checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    await graph.ainvoke(question("First?"), thread, context=settings(script))
    found = await graph.ainvoke(question("Second?"), thread, context=settings(script))
    state = State.model_validate(found)
    assert (state.question, [turn.turn for turn in state.memory]) == ("Second?", [1])
    assert [message.text for message in exchanged(state.messages)] == ["First?", "hello", "Second?", "hello"]
    for module in ("planner", "verifier", "generator"):
        assert "First?" not in str(script.asked(module)[-1])
    assert len(script.asked("planner")[-1]) == 2


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
    found = await asyncio.gather(*(graph.ainvoke(given, context=settings(script)) for given in questions))
    for number, state in enumerate(map(State.model_validate, found)):
        assert (state.answer, len(state.memory)) == (f"#{number}#", 2)
        assert set(re.findall(r"#\d+#", state.model_dump_json())) == {f"#{number}#"}
    for _, conversation in script.calls:
        assert len(set(re.findall(r"#\d+#", str(conversation)))) == 1


async def test_two_questions_that_alternate_node_by_node(scripted: Script) -> None:
    script = scripted(**numbered())
    graph = build_graph([echo])
    streams = [
        graph.astream(question(f"What is #{number}#?"), context=settings(script), stream_mode="values")
        for number in (1, 2)
    ]
    last: list[Any] = [None, None]
    for _ in range(9):  # the question itself, then eight nodes
        last = [await anext(stream) for stream in streams]
    assert [state["answer"] for state in last] == ["#1#", "#2#"]
    for number, state in zip((1, 2), last, strict=True):
        assert set(re.findall(r"#\d+#", str(state))) == {f"#{number}#"}


# LangGraph citizen


def test_invoke(scripted: Script) -> None:
    found = build_graph([echo]).invoke(question(), context=settings(scripted()))
    assert found["answer"] == "hello"


def test_invoke_raises_what_a_node_raises(scripted: Script) -> None:
    with fails(ModelError, "no_question"):
        build_graph().invoke({"messages": []}, context=settings(scripted()))


async def test_a_tool_of_ones_own(scripted: Script) -> None:
    @tool
    def shout(text: str) -> str:
        """Writes a text in capitals."""
        return text.upper()

    script = scripted(planner=PLAN.replace("echo", "shout"))
    found = await build_graph([shout]).ainvoke(question(), context=settings(script))
    assert found["memory"][0].action.result.output == "HELLO"
    assert "- shout: Writes a text in capitals." in script.asked("planner")[0][0].text


async def test_the_state_survives_the_checkpointer(scripted: Script) -> None:
    script = scripted(
        planner=["nothing", PLAN],
        executor='{"text": "hello \\ud83d 東京"}',
        verifier=[CONTINUE, STOP],
    )
    graph = build_graph([echo], checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    given = await graph.ainvoke(question(), thread, context=settings(script))
    kept = (await graph.aget_state(thread)).values
    assert kept["memory"] == given["memory"]
    assert all(isinstance(turn, Turn) and isinstance(turn.plan, Plan) for turn in kept["memory"])
    assert isinstance(kept["verdict"], Verdict)
    assert kept["memory"][0].plan.error is ErrorClass.BAD_PLAN
    assert State.model_validate(kept) == State.model_validate(given)


async def test_a_large_integer_survives_the_checkpointer(scripted: Script) -> None:
    @tool
    async def half(number: int) -> str:
        """Halves."""
        return str(number // 2)

    script = scripted(planner=PLAN.replace("echo", "half"), executor='{"number": 20000000000000000000000}')
    graph = build_graph([half], checkpointer=InMemorySaver())
    found = await graph.ainvoke(question(), {"configurable": {"thread_id": "1"}}, context=settings(script))
    assert found["memory"][0].action.result.output == "10000000000000000000000"
