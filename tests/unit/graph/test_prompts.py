"""Prompts as settings: what they must mention, how they are filled, and that the modules are asked with them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from agentflow.graph.agent import build_graph
from agentflow.graph.context import Context
from agentflow.graph.prompts import PLACEHOLDERS, Prompted, check, fill
from agentflow.nodes import analyst, executor, generator, planner, verifier
from tests.cases import table
from tests.scripted import GUESS, Script, question

DEFAULTS: dict[Prompted, str] = {
    "analyst": analyst.PROMPT,
    "planner": planner.PROMPT,
    "executor": executor.PROMPT,
    "verifier": verifier.PROMPT,
    "generator": generator.PROMPT,
}


@pytest.mark.parametrize(("module", "text", "problem"), table(__file__, "prompts.txt"))
def test_a_prompt_that_cannot_be_filled_is_refused(module: Any, text: str, problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        Context(prompts={module: text})


def test_other_braces_are_text() -> None:
    text = 'Tools: {tools}. Reply {"tool": "x"}, {{}} or {0} {tools.__class__} {tools!r}'
    check("planner", text)
    assert fill(text, tools="T") == text.replace("{tools}", "T")


@given(st.text(), st.text(), st.text())
def test_what_is_put_in_is_not_read_again(before: str, value: str, after: str) -> None:
    braces = str.maketrans("", "", "{}")
    before, after = before.translate(braces), after.translate(braces)
    for hostile in (value, "{name}", "{tools}", "{0.__class__}"):
        assert fill(f"{before}{{tools}}{after}", tools=hostile, name="leak") == f"{before}{hostile}{after}"


@pytest.mark.parametrize("module", PLACEHOLDERS)
async def test_the_module_is_asked_with_the_prompt_of_the_run(module: Prompted, scripted: Script) -> None:
    script = scripted(**GUESS)
    check(module, DEFAULTS[module])
    # The script knows a module by the beginning of its prompt.
    prompts: dict[Prompted, str] = {module: f"{DEFAULTS[module]}\nBe brief."}
    context = Context(model=script.spec, prompts=prompts)
    await build_graph().ainvoke(question(), context=context)

    asked = {name: {conversation[0].text for conversation in script.asked(name)} for name in PLACEHOLDERS}
    for name, [system] in asked.items():
        assert system.endswith("\nBe brief.") == (name == module)
        assert "{" not in system.replace('{"', "")
