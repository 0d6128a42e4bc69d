"""Replies that repeat themselves are cut before other prompts contain them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.graph.agent import build_graph
from agentflow.graph.context import Context
from agentflow.nodes.reply_parsing import LONG, without_loop
from tests.scripted import PLAN, STOP, Script, echo, question

LOOPS = {
    "letter": "a",
    "line": "The answer is the answer.\n",
    "paragraph": "".join(f"Sentence {letter} says something else. " for letter in "abcdefghijkl"),
}
BEGINNING = "First I add the numbers.\n"


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize("torn", [0, 7])
def test_the_repetitions_at_the_end_are_cut(loop: str, torn: int) -> None:
    whole = BEGINNING + loop * (9000 // len(loop))
    cut = without_loop(whole[: len(whole) - torn])
    assert cut.startswith(BEGINNING + loop)
    assert len(cut) < len(BEGINNING) + 3 * len(loop) + 60


@given(st.text(max_size=300), st.integers(1, 12))
def test_a_short_reply_stays_as_it_is(text: str, times: int) -> None:
    short = (text * times)[: LONG - 1]
    assert without_loop(short) == short


def test_a_long_reply_without_repetitions_stays_as_it_is() -> None:
    words = " ".join(f"word{number:b}" for number in range(1000))
    program = "\n".join(f"    if name == '{chr(97 + n % 26) * (n % 7 + 1)}': return {n}" for n in range(30))
    column = "Context: " + "\n".join(f"row {number:04}: {number * 37:06}" for number in range(300))
    for text in (words, f"```python\n{program}\n```", column):
        assert without_loop(text) == text


async def test_neither_analysis_nor_plan_nor_verdict_fills_other_prompts(scripted: Script) -> None:
    loop = 400 * LOOPS["line"]
    script = scripted(analyst=loop, planner=[loop, f"{PLAN}\n{loop}"], verifier=[loop, f"{loop}\n{STOP}"])
    await build_graph([echo]).ainvoke(question(), context=Context(model=script.spec))
    assert all(sum(len(message.text) for message in conversation) < 8000 for _, conversation in script.calls)
    assert script.asked("executor")
