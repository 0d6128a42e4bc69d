"""python_coder: runs a program and returns what it prints."""

import signal

from langchain_core.tools import BaseTool, StructuredTool
from pydantic import BaseModel, Field

from agentflow.tools.python_process import Limits, Outcome, execute
from agentflow.tools.result import ErrorClass, ToolFailure

CARD = {
    "description": "Runs a Python 3 program and returns what it prints. "
    "Good for arithmetic, dates, units, counting, comparing, search over many cases.",
    "limits": "No network, no files kept, 10 seconds. The program must print its result and contain all its data.",
    "examples": [{"code": "print(12 * 7)"}],
}


class Arguments(BaseModel):
    """Arguments of python_coder."""

    code: str = Field(description="The program.")


def python_coder(limits: Limits | None = None) -> BaseTool:
    """The tool; `limits` default to those that its card states."""
    limits = limits or Limits()

    async def run(code: str) -> str:
        return _printed(await execute(code, limits), limits)

    return StructuredTool.from_function(
        coroutine=run,
        name="python_coder",
        description=str(CARD["description"]),
        args_schema=Arguments,
        metadata={"agentflow": CARD},
    )


def _printed(outcome: Outcome, limits: Limits) -> str:
    """What the program printed; raises ToolFailure if it did not end well or printed nothing."""
    if outcome.stopped == "timeout":
        raise ToolFailure(ErrorClass.TIMEOUT, f"the code did not finish in {limits.seconds:g} seconds")
    if outcome.stopped == "flood":
        kib = limits.output_bytes // 1024
        raise ToolFailure(ErrorClass.TOOL_ERROR, f"the code printed more than {kib} KiB; print only the result")
    if outcome.status:
        raise ToolFailure(ErrorClass.TOOL_ERROR, _why(outcome))
    if not outcome.stdout:
        raise ToolFailure(ErrorClass.EMPTY_RESULT, "the code printed nothing; print the result")
    return outcome.stdout


def _why(outcome: Outcome) -> str:
    """One line on a program that failed."""
    if outcome.status < 0:
        return f"the code was ended by {signal.Signals(-outcome.status).name}"
    if outcome.status == 1 and outcome.stderr:
        return outcome.stderr.splitlines()[-1].strip()
    return f"the code exited with status {outcome.status}"
