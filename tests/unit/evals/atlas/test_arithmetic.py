"""Expressions are found and checked exactly, and never run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.evals.atlas.arithmetic import first_expression, search_program
from agentflow.evals.scorers.expression import makes_target
from agentflow.tools.catalogue import standard_tools
from agentflow.tools.run import run_tool
from agentflow.tools.search_settings import SearchSettings
from tests.waiting import LAST_RESORT

NUMBERS = st.tuples(*[st.integers(1, 13)] * 4)


@given(NUMBERS)
def test_what_is_found_checks(numbers):
    found = first_expression(numbers, 24)
    assert found is None or makes_target(found, numbers, 24)


@given(st.text())
def test_no_text_makes_the_check_raise(text):
    assert makes_target(text, (1, 2, 3, 4), 24) in (True, False)


@pytest.mark.parametrize(("numbers", "target"), [((3, 3, 8, 8), 24), ((1, 2, 3, 4), 24), ((2, 5, 5, 10), 47)])
async def test_the_program_prints_what_the_function_finds(numbers, target):
    async def ask(prompt: str) -> str:
        raise AssertionError("python_coder asks no model")

    tool = standard_tools(["python_coder"], ask, SearchSettings())["python_coder"]
    found = first_expression(numbers, target)
    result = await run_tool(tool, {"code": search_program(numbers, target)}, timeout=LAST_RESORT)
    assert (result.output if result.status == "ok" else None) == found
