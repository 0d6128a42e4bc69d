import asyncio
import math
import os
import signal
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from pathlib import Path
from typing import NoReturn

import pytest

from agentflow.tools.catalogue import availability
from agentflow.tools.python_coder import python_coder
from agentflow.tools.result import ErrorClass, ToolResult
from agentflow.tools.run import run_tool
from agentflow.tools.sandbox import execute as execution
from agentflow.tools.sandbox import tiers
from agentflow.tools.sandbox.execute import execute, sandbox_level
from agentflow.tools.sandbox.limits import Limits, SandboxError
from agentflow.tools.search_settings import SearchSettings
from tests.cases import sections
from tests.failing import fails
from tests.waiting import LAST_RESORT

CASES = sections(__file__, "python_coder.txt")
SIGNALS = (signal.SIGSEGV, signal.SIGRTMIN, 40, signal.SIGRTMAX)
ENDED = [(f"import os\nos.kill(os.getpid(), {number})", "the code was ended by ") for number in SIGNALS]


async def run(code: str, **limits: float) -> ToolResult:
    return await run_tool(python_coder(Limits(**limits)), {"code": code}, LAST_RESORT)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(("code", "output"), CASES["programs and what they print"])
async def test_a_program_runs_as_main(code: str, output: str) -> None:
    result = await run(code)
    assert (result.error, result.output) == (None, output)


@pytest.mark.parametrize(("code", "message"), [*CASES["programs and why they fail"], *ENDED])
async def test_a_failure_is_one_line(code: str, message: str) -> None:
    endless = code.startswith("while")
    result = await run(code, seconds=3 if endless else 600, memory_bytes=1 << 28, file_bytes=1 << 16)
    expected = (
        ErrorClass.TIMEOUT if endless else ErrorClass.EMPTY_RESULT if "nothing" in message else ErrorClass.TOOL_ERROR
    )
    assert (result.error, message in result.output, "\n" in result.output) == (expected, True, False)


async def test_equal_programs_print_equal_sets_in_a_fresh_folder_that_is_removed(own_temporary_folder: Path) -> None:
    assert len({(await run("print({str(n) for n in range(50)})")).output for _ in range(2)}) == 1
    code = "import os\nprint(os.listdir('.'))\nopen('left', 'w').write('x')\nos.mkdir('d')"
    assert [(await run(code)).output for _ in range(2)] == ["['__program__.py']"] * 2
    # A fork server that began meanwhile has a folder there, in which its programs have theirs.
    homes = [own_temporary_folder / name for name in os.listdir(own_temporary_folder)]
    assert [left for home in homes for left in os.listdir(home)] == []


async def test_a_flood_is_stopped_early_and_one_of_warnings_is_not_kept() -> None:
    flood = await execute("while True:\n    print('x' * 10_000)", Limits(seconds=LAST_RESORT))
    assert (flood.stopped, len(flood.stdout) <= 64 << 10) == ("flood", True)
    assert "more than 64 KiB" in (await run("print('x' * 100_000)")).output
    warnings = await execute("import sys\nfor _ in range(3000): sys.stderr.write('w' * 1000)\nprint('ok')", Limits())
    assert (warnings.stdout, warnings.stopped, warnings.status) == ("ok", "", 0)
    assert len(warnings.stderr) <= 8192


def test_the_loop_need_not_be_the_main_threads() -> None:
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(lambda: asyncio.run(run("print(1)"))).result().output == "1"


async def test_the_tier_is_in_every_result() -> None:
    tier = (await run("print(1)")).sandbox
    assert tier in tiers.DESCRIPTIONS
    assert [(await run(code, seconds=1)).sandbox for code in ("1 / 0", "None", "while 1: pass")] == [tier] * 3
    assert sandbox_level().startswith(f"{tier}: ")


async def test_without_a_sandbox_nothing_runs_and_its_failure_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """No planner may be trained on it as on a tool's failure."""

    async def refused(tier: str, *named: str) -> None:
        monkeypatch.setenv(tiers.VARIABLE, tier)
        monkeypatch.setattr(execution, "_sandbox", execution._Sandbox())
        with fails(SandboxError, *named) as raised:
            await run("print(1)")
        assert availability("python_coder", SearchSettings()) == str(raised.value)

    def ends(*_: object) -> NoReturn:
        raise SandboxError("the sandbox's fork server ended while the code ran")

    await refused("none", "unknown_tier", tiers.VARIABLE, "none", "auto", "bwrap")
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    await refused("bwrap", "no_tier", "bwrap", "apt install bubblewrap", "AGENTFLOW_SANDBOX=subprocess")
    monkeypatch.setattr(execution, "run", ends)
    with pytest.raises(SandboxError):
        await run("print(1)")


@pytest.mark.parametrize("name", [field.name for field in fields(Limits)])
def test_no_limit_is_below_one(name: str) -> None:
    for value in (0, -1, math.nan, None, *((math.inf, -math.inf, True, "10") if name == "seconds" else ())):
        with pytest.raises(ValueError, match=name):
            replace(Limits(), **{name: value})  # type: ignore[arg-type]
