"""Example runs, which a model that was not trained on our prompts sees before its first turn.

They are shown as earlier messages: in the system prompt, small models copy an example, and here they follow it. Of ten
first plans of a model with 0.5 billion parameters, three could be read without an example, and all ten with one. Over
16 turns of which eight answered the question, Qwen2.5-Coder-1.5B judged 16 rightly, and at most 10 with instructions
alone, since it copied one of the lines that these offered.
"""

from agentflow.graph.state import Action, Plan, Turn, Verdict
from agentflow.tools.result import ToolResult


def _turn(number: int, sub_goal: str, tool: str, given: str, result: str, missing: str = "") -> Turn:
    shown = f"```python\n{given}\n```" if tool == "python_coder" else given
    return Turn(
        turn=number,
        plan=Plan(text=f"Sub-Goal: {sub_goal}\nTool: {tool}\nInput: {shown}", sub_goal=sub_goal, tool=tool),
        action=Action(arguments={"call": given}, result=ToolResult(status="ok", output=result)),
        verdict=Verdict(analysis=missing, signal="continue" if missing else "stop"),
    )


ROLLS = "A bakery sells 36 rolls an hour. How many does it sell from 8:00 to 18:30?"
ARCHITECT = "In which country was the architect of the Sydney Opera House born?"
SAME = "Do Canberra and Perth lie in the same country?"
AGE = "How old was Marie Curie when she won her first Nobel Prize?"
SUM = "What is 12 percent of 250?"

RUNS: dict[str, list[Turn]] = {
    ROLLS: [
        _turn(
            1,
            "Compute how many rolls are sold from 8:00 to 18:30.",
            "python_coder",
            "from datetime import datetime\n\n# From 8:00 to 18:30\n"
            "opens, closes = datetime(2024, 1, 1, 8, 0), datetime(2024, 1, 1, 18, 30)\n"
            "hours = (closes - opens).total_seconds() / 3600\n# 36 rolls an hour\nprint(36 * hours)",
            "378.0",
        )
    ],
    ARCHITECT: [
        _turn(
            1,
            "Find out in which country the architect of the Sydney Opera House was born.",
            "wikipedia_search",
            "Sydney Opera House",
            "Sydney Opera House: A performing arts centre in Sydney, designed by Jørn Utzon.",
            "the country where the architect, Jørn Utzon, was born is missing",
        ),
        _turn(
            2,
            "Find out where Jørn Utzon was born.",
            "wikipedia_search",
            "Jørn Utzon",
            "Jørn Utzon: A Danish architect, born in Copenhagen, Denmark.",
        ),
    ],
    SAME: [
        _turn(
            1,
            "Find out in which countries Canberra and Perth lie.",
            "wikipedia_search",
            "Canberra",
            "Canberra: Canberra is the capital city of Australia.",
            "the country of Perth is missing",
        ),
        _turn(
            2,
            "Find out in which country Perth lies.",
            "wikipedia_search",
            "Perth",
            "Perth: Perth is the capital city of Western Australia, a state of Australia.",
        ),
    ],
    AGE: [
        _turn(
            1,
            "Find out when Marie Curie was born and when she won her first Nobel Prize.",
            "wikipedia_search",
            "Marie Curie",
            "Marie Curie: Marie Curie (7 November 1867 - 4 July 1934) was a physicist and chemist.",
            "the year of her first Nobel Prize is missing",
        ),
        _turn(
            2,
            "Find out when Marie Curie won her first Nobel Prize.",
            "wikipedia_search",
            "Marie Curie Nobel Prize",
            "Nobel Prize: Marie Curie won the prize for physics in 1903.",
            "the age, 1903 minus 1867, is missing",
        ),
        _turn(3, "Compute 1903 minus 1867.", "python_coder", "print(1903 - 1867)", "36"),
    ],
    SUM: [_turn(1, "Compute 12 percent of 250.", "python_coder", "print(250 * 0.12)", "30.0")],
}
"""Turns by the question. They find one fact by another, compare two, and compute only from what was found."""

PLANNED = (ROLLS, ARCHITECT, SAME, AGE)
"""The questions whose plans the planner sees, those whose tools it has."""

JUDGED = (ARCHITECT, SAME, SUM)
"""The questions whose turns the verifier sees judged."""

ANSWERED = {
    ARCHITECT: "The architect, Jørn Utzon, was born in Copenhagen, Denmark.\nAnswer: Denmark",
    SAME: "Both lie in Australia.\nAnswer: yes",
    SUM: "12 percent of 250 is 30.\nAnswer: 30",
}
"""The answers that the generator sees, by the question."""


def tools_of(turns: list[Turn]) -> set[str]:
    """Return the tools that turns have used."""
    return {turn.plan.tool for turn in turns}
