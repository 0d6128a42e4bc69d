"""The python_coder tool: runs a program and returns its output."""

import signal

from langchain_core.tools import BaseTool, StructuredTool
from pydantic import BaseModel, Field

from agentflow.tools.result import ErrorClass, ToolFailure
from agentflow.tools.run import SANDBOX
from agentflow.tools.sandbox.execute import execute
from agentflow.tools.sandbox.limits import Limits, Outcome

CARD = {
    "description": "Runs a Python 3 program and returns what it prints. "
    "Good for arithmetic, dates, units, counting, comparing, search over many cases.",
    "limits": "No network, no files kept, 10 seconds. The program must print its result and contain all its data.",
    "examples": [{"code": "print(12 * 7)"}],
    "side_effects": False,
}


class Arguments(BaseModel):
    """Arguments of python_coder."""

    code: str = Field(description="The program.")


def python_coder(limits: Limits | None = None) -> BaseTool:
    """Return the tool. `limits` default to those stated in its card."""
    limits = limits or Limits()

    async def run(code: str) -> tuple[str, dict[str, str]]:
        outcome = await execute(code, limits)
        return _printed(outcome, limits), {SANDBOX: outcome.tier}

    return StructuredTool.from_function(
        coroutine=run,
        name="python_coder",
        description=str(CARD["description"]),
        args_schema=Arguments,
        response_format="content_and_artifact",
        metadata={"agentflow": {**CARD, "model": ""}},
    )


def _printed(outcome: Outcome, limits: Limits) -> str:
    """Return the program's output. Raises ToolFailure if the program failed or printed nothing."""

    def failure(error: ErrorClass, message: str) -> ToolFailure:
        return ToolFailure(error, message, outcome.tier)

    if outcome.stopped == "timeout":
        raise failure(ErrorClass.TIMEOUT, f"the code did not finish in {limits.seconds:g} seconds")
    if outcome.stopped == "flood":
        kib = limits.output_bytes // 1024
        raise failure(ErrorClass.TOOL_ERROR, f"the code printed more than {kib} KiB; print only the result")
    if outcome.stopped == "disk":
        mib = limits.disk_bytes >> 20
        raise failure(ErrorClass.TOOL_ERROR, f"the code wrote more than {limits.files} files or {mib} MiB")
    if outcome.status:
        raise failure(ErrorClass.TOOL_ERROR, _why(outcome))
    if not outcome.stdout:
        raise failure(ErrorClass.EMPTY_RESULT, "the code printed nothing; print the result")
    return outcome.stdout


def _why(outcome: Outcome) -> str:
    """Return one line on why a program failed."""
    if outcome.status < 0:
        return f"the code was ended by {_signal_name(-outcome.status)}"
    if outcome.status == 1 and outcome.stderr:
        return outcome.stderr.splitlines()[-1].strip()
    return f"the code exited with status {outcome.status}"


def _signal_name(number: int) -> str:
    """Return the name as in `kill -l`, or "signal N" for real-time signals, which have no name."""
    known = next((known.name for known in signal.Signals if known == number), "")
    return known or f"signal {number}"
