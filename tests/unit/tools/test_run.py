import asyncio
import sys
from typing import Annotated, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, InjectedToolCallId, StructuredTool, Tool, ToolException, tool
from pydantic import BaseModel, field_validator

from agentflow.tools import run
from agentflow.tools.base_generator import base_generator
from agentflow.tools.redaction import MESSAGE
from agentflow.tools.result import ErrorClass, ToolFailure
from agentflow.tools.run import MAX_MESSAGE, run_tool
from tests.cases import table
from tests.scripted import echo
from tests.waiting import LAST_RESORT


def saying(reply: Any) -> BaseTool:
    async def say(text: str = "") -> Any:
        if isinstance(reply, BaseException):
            raise reply
        return reply

    return StructuredTool.from_function(coroutine=say, name="say", description="Says it.")


async def ran(one: BaseTool, arguments: Any = (), seconds: float = LAST_RESORT) -> tuple[ErrorClass | None, str]:
    """The class of a call's failure, and its output."""
    result = await run_tool(one, {} if arguments == () else arguments, seconds)
    assert result.status == ("ok" if result.error is None else "error")
    assert result.seconds > 0
    result.model_dump_json()
    return result.error, result.output


@tool
async def hang() -> str:
    """Never ends."""
    await asyncio.Event().wait()
    return "late"


def _fail() -> str:
    raise ToolException("no such city")


@tool
def leave() -> str:
    """Ends the process."""
    sys.exit(3)


BAD, BROKEN, EMPTY = ErrorClass.BAD_ARGUMENTS, ErrorClass.TOOL_ERROR, ErrorClass.EMPTY_RESULT
HANDLED = StructuredTool.from_function(_fail, name="f", description="d", handle_tool_error=True)
BLOCKS = [{"type": "text", "text": "a"}, {"type": "image", "base64": "xx", "mime_type": "image/png"}]
SAID = table(__file__, "said.txt")
RAISED = [
    *((ValueError("broken\nthing"), "broken thing"), (OSError(5, "io"), "[Errno 5] io")),
    *((RecursionError("deep"), "deep"), (AssertionError(), "")),
]
SLOW = TimeoutError("the server was slow")


@pytest.mark.parametrize(
    ("one", "arguments", "error", "output"),
    [
        *((saying(reply), {}, None, output) for reply, output in SAID),
        (echo, {}, BAD, "text: Field required"),
        *((echo, {"text": text}, BAD, "text: Input should be a valid string") for text in (3, ["a"])),
        *(
            (echo, one, BAD, f"the arguments of echo must be an object, not {type(one).__name__}")
            for one in ([], "a", None)
        ),
        *((saying(error), {}, BROKEN, f"{type(error).__name__}: {said}".rstrip(": ")) for error, said in RAISED),
        (saying(ExceptionGroup("many", [ExceptionGroup("in", [ValueError("a")])])), {}, BROKEN, "ValueError: a"),
        *((saying(error), {}, ErrorClass.TIMEOUT, str(SLOW)) for error in (SLOW, ExceptionGroup("", [SLOW]))),
        (Tool(name="up", func=str.upper, description="Upper case."), {"__arg1": "a"}, None, "A"),
        (Tool(name="up", func=str.upper, description="Upper case."), {}, BAD, "__arg1: Field required"),
        (saying(ToolFailure(ErrorClass.MODEL_ERROR, "no model")), {}, ErrorClass.MODEL_ERROR, "no model"),
        (saying(ToolMessage("refused by server", tool_call_id="x", status="error")), {}, BROKEN, "refused by server"),
        (HANDLED, {}, BROKEN, "no such city"),
        (leave, {}, BROKEN, "SystemExit: 3"),
        *((saying(reply), {}, EMPTY, "say returned nothing") for reply in (None, "", " \n", [], BLOCKS[:0])),
        (saying([{"type": "text", "text": " "}]), {}, EMPTY, "say returned nothing"),
    ],
)
async def test_a_call_has_an_output_or_a_failure_of_one_class(
    one: BaseTool, arguments: Any, error: ErrorClass | None, output: str
) -> None:
    assert await ran(one, arguments) == (error, output)


async def test_a_tool_that_hangs_is_a_timeout() -> None:
    assert await ran(hang, seconds=0.05) == (ErrorClass.TIMEOUT, "hang did not finish in 0.05 seconds")


async def test_a_validation_error_inside_a_tool_is_the_tools() -> None:
    """No planner is told that its arguments were wrong."""

    class Inner(BaseModel):
        number: int

        @field_validator("number")
        @classmethod
        def check(cls, value: int) -> int:
            raise RuntimeError("the validator broke")

    async def parses(number: Any) -> str:
        return str(Inner.model_validate({"number": number}))

    parser = StructuredTool.from_function(coroutine=parses, name="t", description="d")
    error, output = await ran(parser, {"number": "x"})
    assert (error, output.partition(" for Inner")[0]) == (BROKEN, "ValidationError: 1 validation error")
    checked = StructuredTool.from_function(coroutine=parses, name="t", description="d", args_schema=Inner)
    assert await ran(checked, {"number": 1}) == (BROKEN, "RuntimeError: the validator broke")


async def test_a_message_is_one_bounded_line() -> None:
    _, output = await ran(saying(ValueError("a\n" * 10_000)))
    assert ("\n" in output, len(output)) == (False, MAX_MESSAGE)


async def test_sync_tools_injected_arguments_and_an_argument_named_type_work() -> None:
    @tool
    def kind(type: str, id: str, call: Annotated[str, InjectedToolCallId]) -> str:
        """Says the type."""
        assert call
        return f"{type} {id}"

    arguments = {"type": "tool_call", "id": "a"}
    assert await ran(kind, arguments) == (None, "tool_call a")
    assert arguments == {"type": "tool_call", "id": "a"}


async def test_arguments_of_a_json_schema_tool_are_checked() -> None:
    properties = {"a": {"type": "integer"}, "b": {"type": "number"}}
    schema = {"title": "add", "description": "Adds.", "type": "object", "properties": properties, "required": ["a"]}

    async def add(**arguments: Any) -> str:
        return str(sum(arguments.values()))

    adder = StructuredTool(name="add", description="Adds.", args_schema=schema, coroutine=add)
    assert await ran(adder, {"a": 1, "b": 1.5}) == (None, "2.5")
    assert await ran(adder, {"b": 1}) == (BAD, "a: Field required")
    assert await ran(adder, {"a": "1"}) == await ran(adder, {"a": True}) == (BAD, "a: Input should be of type integer")


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
