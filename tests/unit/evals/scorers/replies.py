"""Replies with the verdict of a careful reader, and forms to write a puzzle's solution in."""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

from agentflow.evals.scorers.expression import expression
from agentflow.evals.scorers.free_text import free_text
from agentflow.evals.scorers.number import number
from agentflow.evals.scorers.option import option
from agentflow.evals.scorers.score import Decision
from agentflow.graph.run.task import Task

FOLDER = Path(__file__).parent / "replies"

NATURAL = (
    "{e}",
    "{e} = 24",
    "{e} = 24.",
    "$ {latex} = 24 $",
    r"\boxed{{{latex}}}",
    "24 = {e}",
    "{e} == 24",
    "{e} = 24.0",
    "{e} = 24 (each number used once)",
    "Numbers: {blanks}\nAnswer: {e} = 24",
    "Answer: {e} = 24 (check: 4*6 = 24)",
    "The expression {signs} equals 24.",
    "Using {commas}: {e} = 24",
    "**{e} = 24**",
    "1. {e}",
    "{wide}",
    "{e} = 4 * 6 = 24",
    "<answer>{e}</answer>",
    "{blanks} {e} = 24",
    "{e} = 24, not 4*6.",
    "{e} = 24, which does not require any roots",
    "{e} = 24. Other attempts such as 4*5*2 = 40 do not work.",
    "Answer: {e} = 24. Note that 4*6 = 24 alone is not valid since it does not use all numbers.",
    "It is not possible with 4*6 directly, but {e} = 24 works.",
    "Sure! One way is {e}, which evaluates to 24.",
    "{e} = 24. There may not be another way.",
    "{e} → 24 ✅",
)
"""Templates of correct replies: text that language models write around an expression."""
NEAR = (
    "√({e}) = 24",
    "sqrt({e})",
    "log({e})",
    "({e})! = 24",
    "({e})^2 = 24",
    "{e}^1",
    "{e}%",
    "{e} ≠ 24",
    "{e} is not 24; no solution",
    "1/2 of {e}",
    "{e} + 1",
    "{e} * 1 = 24",
    "{e} = 25",
    "{e} + {first}",
    "2 * ({e}) / 2",
    "half of ({e}) = 24",
    "{e} squared",
    "log(1) + {e}",
    "{e} + log(1)",
    "No solution: {e} is wrong",
    "({e})**1",
    "1 + {e} - 1",
    "{e} mod 25",
    "-({e})",
    "{e} - 0",
    "{e} = 24 is impossible",
    "Neither {e} nor 4*6 gives 24.",
    "{e} is the best I have but it gives 23",
    "{e} - that's 26, not 24",
    "It would be wrong to claim {e} = 24.",
    "{e} gives us 22",
    "{e} would be 22",
    "{e}: result 22",
    "{e} → 22",
    "Not solvable. {e}",
    "{e} % 100 = 24",
    "({e}) %",
    "{e} = 24 %",
    "5 % of {e}",
    "({e})‰",
    "({e})° = 24",
    "{e} dB",
    "{e} !",
    "{e} < 24",
    "{e} ≥ 24",
    "{e} <> 24",
    "{e} | 0",
    "{e} >> 0",
    "~({e})",
    "∑({e})",
    "sum of digits of {e}",
    "the derivative of {e}",
    "gcd(24, {e})",
    "max(24, {e})",
    "⌊{e}⌋ = 24",
    "|{e}|",
    "{e} = 24 in base 9",
    "Anything but {e}",
    "the difference of {e} and 24",
    "{e} = 24. Hmm, that equals 22.",
    "{e} is close to 24",
)
"""Templates of wrong replies that contain a solution."""


class Reply(BaseModel):
    """A row of a table: a reply, its reference answer, and a careful person's verdict."""

    part: Literal["first", "second", "third", "fourth"]
    kind: str
    reply: str
    verdict: Literal["correct", "incorrect"]
    gold: str = ""
    numbers: list[int] = Field(default_factory=list)
    target: int = 24
    options: dict[str, str] = Field(default_factory=dict)


SCORERS: Mapping[str, Callable[[Reply], Decision]] = {
    "game24": lambda row: expression(row.reply, row.numbers, row.target).decision,
    "numbers": lambda row: number(row.reply, row.gold).decision,
    "options": lambda row: option(row.reply, row.options, row.gold).decision,
    "yes_no": lambda row: free_text(row.reply, [row.gold]).decision,
}


@cache
def replies(table: str) -> tuple[Reply, ...]:
    """Return the rows of a table."""
    lines = (FOLDER / f"{table}.jsonl").read_text(encoding="utf-8").splitlines()
    return tuple(Reply.model_validate_json(line) for line in lines)


def decision(table: str, row: Reply) -> Decision:
    """Score a row with the table's scorer."""
    return SCORERS[table](row)


def written(puzzle: Task, form: str) -> str:
    """Return the solution of a puzzle, written in the template `form`."""
    numbers, gold = puzzle.data["numbers"], puzzle.gold
    return form.format(
        e=gold,
        latex=gold.replace("*", r" \times "),
        signs=gold.translate(str.maketrans("*/-", "×÷−")),
        wide=gold.translate(str.maketrans("()*", "（）×")),
        blanks=" ".join(map(str, numbers)),
        commas=", ".join(map(str, numbers)),
        first=numbers[0],
    )
