"""The python_coder tool: runs a program and returns its output.

A program is run as it was meant: an indent of the whole is taken off, and where a well-known name is not defined, the
program is run again with its import. Small models write `print(gcd(1071, 462))` again and again, whatever the error
says. A program has no effect outside its sandbox, so it can be run again.
"""

import re
import signal
import textwrap
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Annotated

from langchain_core.tools import BaseTool

from agentflow.tools.card import tool_with_card
from agentflow.tools.result import ErrorClass, ToolFailure
from agentflow.tools.run import SANDBOX
from agentflow.tools.sandbox.execute import execute
from agentflow.tools.sandbox.limits import NO_FILES, Limits, Outcome

CARD = {
    "description": "Runs a Python 3 program and returns what it prints. "
    "Good for arithmetic, dates, units, counting, comparing, search over many cases.",
    "limits": "No network, no files kept, 10 seconds. The program must print its result and contain all its data.",
    "examples": [{"code": "print(12 * 7)"}],
    "side_effects": False,
}


files: ContextVar[Mapping[str, str]] = ContextVar("attached files", default=NO_FILES)
"""The texts that a program of this run can open, by name."""

MODULES = (
    *("bisect", "calendar", "collections", "decimal", "fractions", "functools", "heapq", "itertools", "json", "math"),
    *("operator", "os", "random", "re", "statistics", "string", "sys", "time"),
)
NAMES = {
    "collections": ("Counter", "defaultdict", "deque"),
    "datetime": ("date", "datetime", "timedelta"),
    "decimal": ("Decimal",),
    "fractions": ("Fraction",),
    "functools": ("lru_cache", "reduce"),
    "itertools": ("accumulate", "combinations", "permutations", "product"),
    "math": ("ceil", "comb", "factorial", "floor", "gcd", "isqrt", "lcm", "log", "log10", "log2", "perm", "pi", "sqrt"),
    "statistics": ("mean", "median", "mode", "stdev"),
}
IMPORTS = {name: f"import {name}" for name in MODULES} | {
    name: f"from {module} import {name}" for module, names in NAMES.items() for name in names
}
"""The import of each well-known name."""

MAX_IMPORTS = 4
"""Times that a program is run again with one more import."""

_UNDEFINED = re.compile(r"NameError: name '(\w+)' is not defined")
_SET = re.compile(r"^[ \t]*(\w+) *(?:[-+*/]|//)?=(?!=)(.*)", re.MULTILINE)
"""A variable, and what it is set to."""


def python_coder(limits: Limits | None = None) -> BaseTool:
    """Return the tool. `limits` default to those stated in its card."""
    limits = limits or Limits()

    async def run(code: Annotated[str, "The program."]) -> tuple[str, dict[str, str]]:
        outcome = await _executed(_unindented(code), limits)
        return _printed(outcome, limits), {SANDBOX: outcome.tier}

    return tool_with_card("python_coder", CARD, "", run, response_format="content_and_artifact")


def _unindented(code: str) -> str:
    first = next((line for line in code.splitlines() if line.strip()), "")
    return textwrap.dedent(code).lstrip() if first[:1].isspace() else code


async def _executed(code: str, limits: Limits) -> Outcome:
    """Run a program, and again with the import of each well-known name that it lacks."""
    outcome = await execute(code, limits, files.get())
    for _ in range(MAX_IMPORTS):
        missing = _UNDEFINED.search(outcome.stderr.rpartition("\nTraceback")[2]) if outcome.status == 1 else None
        if missing is None or not (line := _import(missing[1], code)) or line in code.splitlines():
            break
        code = f"{line}\n{code}"
        outcome = await execute(code, limits, files.get())
    return outcome


def _import(name: str, code: str) -> str:
    """Return the import of a name, "" if it is not well known. `datetime` is a module if the program says so."""
    own = [said for variable, said in _SET.findall(code) if variable == name]
    if "__future__" in code or not all(f"{name}(" in said or f"{name}." in said for said in own):
        return ""  # the line of the first must come first; the second is a variable of the program
    if name == "datetime" and re.search(r"datetime\.(?:datetime|date|timedelta)\b", code):
        return "import datetime"
    return IMPORTS.get(name, "")


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
        error = outcome.stderr.splitlines()[-1].strip()
        return f"{error}; use the standard library" if error.startswith("ModuleNotFoundError") else error
    return f"the code exited with status {outcome.status}"


def _signal_name(number: int) -> str:
    """Return the name as in `kill -l`, or "signal N" for real-time signals, which have no name."""
    known = next((known.name for known in signal.Signals if known == number), "")
    return known or f"signal {number}"
