import asyncio
from typing import Annotated, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, InjectedToolCallId, StructuredTool, ToolException, tool
from langgraph.errors import GraphInterrupt
from pydantic import BaseModel, field_validator

from agentflow.tools import run
from agentflow.tools.base_generator import base_generator
from agentflow.tools.redaction import MESSAGE
from agentflow.tools.result import ErrorClass, ToolFailure
from agentflow.tools.run import MAX_MESSAGE, run_tool
from tests.waiting import LAST_RESORT


@tool
async def echo(text: str) -> str:
    """Says it back."""
    return text


def saying(reply: Any) -> BaseTool:
    async def say(text: str = "") -> Any:
        if isinstance(reply, BaseException):
            raise reply
        return reply

    return StructuredTool.from_function(coroutine=say, name="say", description="Says it.")


async def test_a_result_carries_output_and_time() -> None:
    @tool
    async def slow() -> str:
        """Takes a while."""
        return " done\n"

    result = await run_tool(slow, {}, LAST_RESORT)
    assert (result.status, result.output, result.error) == ("ok", "done", None)
    assert result.seconds > 0


async def test_each_kind_of_failure_has_its_own_class() -> None:
    @tool
    async def hang() -> str:
        """Never ends."""
        await asyncio.Event().wait()
        return "late"

    failures = {
        ErrorClass.BAD_ARGUMENTS: await run_tool(echo, {}, LAST_RESORT),
        ErrorClass.TOOL_ERROR: await run_tool(saying(ValueError("broken\nthing")), {}, LAST_RESORT),
        ErrorClass.TIMEOUT: await run_tool(hang, {}, 0.05),
        ErrorClass.EMPTY_RESULT: await run_tool(saying(" \n"), {}, LAST_RESORT),
        ErrorClass.MODEL_ERROR: await run_tool(
            saying(ToolFailure(ErrorClass.MODEL_ERROR, "no model")), {}, LAST_RESORT
        ),
    }
    assert {error: result.error for error, result in failures.items()} == {error: error for error in failures}
    assert all(result.status == "error" for result in failures.values())
    assert [result.output for result in failures.values()] == [
        "text: Field required",
        "ValueError: broken thing",
        "hang did not finish in 0.05 seconds",
        "say returned nothing",
        "no model",
    ]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"text": 3}, "text: Input should be a valid string"),
        ({"text": ["a"]}, "text: Input should be a valid string"),
        ([], "the arguments of echo must be an object, not list"),
        ("text", "the arguments of echo must be an object, not str"),
        (None, "the arguments of echo must be an object, not NoneType"),
    ],
)
async def test_bad_arguments_name_the_field(arguments: Any, problem: str) -> None:
    result = await run_tool(echo, arguments, LAST_RESORT)
    assert (result.error, result.output) == (ErrorClass.BAD_ARGUMENTS, problem)


async def test_a_validation_error_inside_a_tool_is_the_tools() -> None:
    class Inner(BaseModel):
        number: int

    @tool
    async def parses() -> str:
        """Parses something of its own."""
        return str(Inner.model_validate({"number": "x"}))

    result = await run_tool(parses, {}, LAST_RESORT)
    assert result.error is ErrorClass.TOOL_ERROR
    assert result.output.startswith("ValidationError: 1 validation error for Inner")


async def test_a_validator_that_breaks_is_a_tool_error() -> None:
    class Arguments(BaseModel):
        text: str

        @field_validator("text")
        @classmethod
        def check(cls, value: str) -> str:
            raise RuntimeError("the validator broke")

    async def never(text: str) -> str:
        return text

    broken = StructuredTool.from_function(coroutine=never, name="t", description="d", args_schema=Arguments)
    assert (await run_tool(broken, {"text": "a"}, LAST_RESORT)).output == "RuntimeError: the validator broke"


@pytest.mark.parametrize(
    "raised", [OSError(5, "io"), RecursionError("deep"), ExceptionGroup("many", [ValueError("a")])]
)
async def test_whatever_a_tool_raises_is_a_tool_error(raised: BaseException) -> None:
    assert (await run_tool(saying(raised), {}, LAST_RESORT)).error is ErrorClass.TOOL_ERROR


async def test_a_message_is_one_bounded_line() -> None:
    result = await run_tool(saying(ValueError("a\n" * 10_000)), {}, LAST_RESORT)
    assert "\n" not in result.output
    assert len(result.output) == MAX_MESSAGE


@pytest.mark.parametrize(
    ("reply", "output"),
    [
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
        ([{"type": "text", "text": "a"}, {"type": "image", "base64": "xx", "mime_type": "image/png"}], "a\n[image]"),
        (["a", "b"], "a\nb"),
        ({"n": 1}, '{"n": 1}'),
        (42, "42"),
        ("a\ud800b", "a?b"),
    ],
)
async def test_foreign_replies_become_text(reply: Any, output: str) -> None:
    result = await run_tool(saying(reply), {}, LAST_RESORT)
    assert (result.error, result.output) == (None, output)
    result.model_dump_json()


@pytest.mark.parametrize("reply", [None, "", [], [{"type": "text", "text": " "}]])
async def test_nothing_is_an_empty_result(reply: Any) -> None:
    assert (await run_tool(saying(reply), {}, LAST_RESORT)).error is ErrorClass.EMPTY_RESULT


async def test_an_error_that_a_tool_handled_itself_stays_an_error() -> None:
    def fail() -> str:
        raise ToolException("no such city")

    handled = StructuredTool.from_function(fail, name="f", description="d", handle_tool_error=True)
    result = await run_tool(handled, {}, LAST_RESORT)
    assert (result.error, result.output) == (ErrorClass.TOOL_ERROR, "no such city")


async def test_a_message_with_an_error_status_is_an_error() -> None:
    result = await run_tool(saying(ToolMessage("refused by server", tool_call_id="x", status="error")), {}, LAST_RESORT)
    assert (result.error, result.output) == (ErrorClass.TOOL_ERROR, "refused by server")


async def test_sync_tools_and_injected_arguments_work() -> None:
    @tool
    def double(number: int, call: Annotated[str, InjectedToolCallId]) -> str:
        """Doubles."""
        assert call
        return str(2 * number)

    assert (await run_tool(double, {"number": 21}, LAST_RESORT)).output == "42"


async def test_an_argument_named_type_is_no_tool_call() -> None:
    @tool
    async def kind(type: str, id: str, name: str) -> str:
        """Says the type."""
        return f"{type} {id} {name}"

    assert (await run_tool(kind, {"type": "tool_call", "id": "a", "name": "b"}, LAST_RESORT)).output == "tool_call a b"


async def test_arguments_of_a_json_schema_tool_are_checked() -> None:
    schema = {
        "title": "add",
        "description": "Adds.",
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "number"}},
        "required": ["a"],
    }

    async def add(**arguments: Any) -> str:
        return str(sum(arguments.values()))

    adder = StructuredTool(name="add", description="Adds.", args_schema=schema, coroutine=add)
    assert (await run_tool(adder, {"a": 1, "b": 1.5}, LAST_RESORT)).output == "2.5"
    assert (await run_tool(adder, {"b": 1}, LAST_RESORT)).output == "a: Field required"
    assert (await run_tool(adder, {"a": "1"}, LAST_RESORT)).output == "a: Input should be of type integer"
    assert (await run_tool(adder, {"a": True}, LAST_RESORT)).error is ErrorClass.BAD_ARGUMENTS


async def test_only_the_beginning_of_a_long_message_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading five million characters takes the event loop a second. A key at the end of what is read is not shown."""
    key = "k9" * 20
    monkeypatch.setenv("SOME_API_KEY", key)
    read = []
    monkeypatch.setattr(run, "bounded_line", lambda text, most: read.append(text) or text[:most])
    for failure in (ToolFailure(ErrorClass.TOOL_ERROR, "x " * 2_500_000), ValueError(key * 100_000)):
        result = await run_tool(saying(failure), {}, LAST_RESORT)
        assert result.status == "error"
        assert "k9" not in result.output
    assert max(map(len, read)) <= MESSAGE


async def test_the_callers_arguments_are_left_alone() -> None:
    arguments = {"text": "a"}
    await run_tool(echo, arguments, LAST_RESORT)
    assert arguments == {"text": "a"}


async def test_cancellation_passes() -> None:
    started = asyncio.Event()

    @tool
    async def hang() -> str:
        """Never ends."""
        started.set()
        await asyncio.Event().wait()
        return ""

    task = asyncio.create_task(run_tool(hang, {}, LAST_RESORT))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_tool_may_interrupt_the_graph() -> None:
    with pytest.raises(GraphInterrupt):
        await run_tool(saying(GraphInterrupt()), {}, LAST_RESORT)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(arguments=JSON | st.fixed_dictionaries({"query": JSON}))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_json_arguments_make_it_raise(arguments: Any) -> None:
    async def ask(prompt: str) -> str:
        return prompt.rpartition("Request: ")[2]

    result = asyncio.run(run_tool(base_generator(ask), arguments, LAST_RESORT))
    if isinstance(arguments, dict) and isinstance(arguments.get("query"), str):
        said = arguments["query"].strip()
        assert result.error is (None if said and said != "null" else ErrorClass.EMPTY_RESULT)
    else:
        assert result.error is ErrorClass.BAD_ARGUMENTS
