"""Example runs, which a model that was not trained on our prompts sees judged before it judges the first turn.

Shown as earlier messages and not as a description of the format, they decide how well a small model judges: over 16
turns of which eight answered the question, Qwen2.5-Coder-1.5B judged 16 rightly, and at most 10 with instructions
alone, since it copied one of the lines that these offered.
"""

from agentflow.graph.state import Action, Plan, Turn, Verdict
from agentflow.tools.result import ToolResult


def _turn(number: int, sub_goal: str, tool: str, call: str, result: ToolResult, missing: str = "") -> Turn:
    return Turn(
        turn=number,
        plan=Plan(sub_goal=sub_goal, tool=tool),
        action=Action(arguments={"call": call}, result=result),
        verdict=Verdict(analysis=missing, signal="continue" if missing else "stop"),
    )


def _found(output: str) -> ToolResult:
    return ToolResult(status="ok", output=output)


ROLLS = "A bakery sells 36 rolls an hour. How many does it sell from 8:00 to 18:30?"
ROLLS_STEP = "Compute how many rolls are sold from 8:00 to 18:30."
SIGNS = "Put signs between the numbers 2, 3 and 5, in any order, so that the result is 13."
OPERA = "In which country was the architect of the Sydney Opera House born?"
SIGNS_STEP = "Try all orders of the numbers and all signs."
SIGNS_PROGRAM = """\
from itertools import permutations, product

found = []
for first, *rest in permutations([2, 3, 5]):
    for signs in product('+-*/', repeat=len(rest)):
        formula = str(first)
        for sign, number in zip(signs, rest):
            formula = f'({formula} {sign} {number})'
        if eval(formula) == 13:
            found.append(formula)
print(found[:3])"""
TRIED = _turn(
    1, SIGNS_STEP, "python_coder", SIGNS_PROGRAM, _found("['((2 * 5) + 3)', '((3 * 5) - 2)', '((5 * 2) + 3)']")
)
"""A turn that tries all cases. Of 12 puzzles of Game of 24, Qwen2.5-Coder-1.5B's first program solved none without it,
and 11 with it. The generator answered 24 in place of the formula, and the verifier went on, until both saw it, too.
"""
SUM = "What is 12 percent of 250?"
JUDGED = {
    "How old was Marie Curie when she won her first Nobel Prize?": [
        _turn(
            1,
            "Find out when Marie Curie was born.",
            "wikipedia_search",
            "Marie Curie",
            _found("Marie Curie (7 November 1867 - 4 July 1934) was a physicist and chemist."),
            "the year of her first Nobel Prize is missing",
        ),
        _turn(
            2,
            "Find out when Marie Curie won her first Nobel Prize.",
            "wikipedia_search",
            "List of Nobel laureates",
            _found("1903: Marie Curie, Physics."),
            "the age, 1903 minus 1867, is missing",
        ),
    ],
    SUM: [_turn(1, "Compute 12 percent of 250.", "python_coder", "print(250 * 0.12)", _found("30.0"))],
    SIGNS: [TRIED],
}
"""Turns and their verdicts, by the question."""

ANSWERED = {
    ROLLS: (
        [_turn(1, ROLLS_STEP, "python_coder", "print(36 * 10.5)", _found("378.0"))],
        "It sells 378 rolls.\nAnswer: 378",
    ),
    SIGNS: ([TRIED], "One formula is ((2 * 5) + 3).\nAnswer: ((2 * 5) + 3)"),
    SUM: (JUDGED[SUM], "12 percent of 250 is 30.\nAnswer: 30"),
}
"""Turns and the generator's reply, by the question. The first cannot be answered in the head: with the second alone,
Qwen2.5-Coder-0.5B answered 10 of 80 questions wrongly beside the right output of its program.
"""
