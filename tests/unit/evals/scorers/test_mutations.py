"""One changed character that carries meaning must never leave an answer correct, and no layout makes a wrong one right.

Of the golds in `cases/values.txt`, the answer is mutated. Of the replies in `replies/`, which say much beside their
answer, the reference is: a reply that is right for 42 must not be right for 43.
"""

import re
from collections.abc import Iterable, Iterator

import pytest

from agentflow.evals.scorers.free_text import free_text
from agentflow.evals.scorers.number import as_number
from agentflow.evals.scorers.score import Decision
from tests.cases import table
from tests.unit.evals.scorers.test_replies import SCORERS, Reply, lines

GOLDS = table(__file__, "values.txt")
LAYOUTS = ("{}", " {}\n", "**{}**", "`{}`", "Answer: {}", "The answer is {}.", "\\boxed{{{}}}", "<answer>{}</answer>")
NUMBER = re.compile(r"(?<![\w.,/{(:^-])[-−]?[\d.]")
SWAPPED = dict(zip("[](){}+<>=*:", ")(][)(-><≠+/", strict=True)) | {"-": "+", "/": "*", "≤": "≥"}
ZERO = re.compile(r"(?<![\d.])0+(?=[\d.])|-(?=0[,)\]])")
UNITS = re.compile(r"(?<=\d )(?:mW|ms|m/s|kg|°C)|[%€]|(?<=\d )million")
OTHER = {"mW": "MW", "ms": "m/s", "m/s": "ms", "kg": "g", "°C": "°F", "%": "", "€": "£", "million": "billion"}


def mutants(gold: str) -> Iterator[str]:
    """The texts that differ from `gold` by one sign, digit, bracket, operator, exponent, unit or negation."""
    for place, character in enumerate(gold):
        before, after = gold[:place], gold[place + 1 :]
        if character.isdecimal():
            yield from (f"{before}{digit}{after}" for digit in "0123456789" if digit != character)
            yield f"{before}{character}{character}{after}"
        elif character in SWAPPED and not (character in "()[]{}" and "\\" in gold):
            yield f"{before}{SWAPPED[character]}{after}"
        if character in "^.:/-!'#+<>√" and not (character in "-'" and before[-1:].isalpha() and after[:1].isalpha()):
            yield before + after
    for found in NUMBER.finditer(gold):
        sign, rest = found[0][0] in "-−", gold[found.end() - 1 :]
        yield gold[: found.start()] + (rest if sign else "-" + found[0] + gold[found.end() :])
    for found in UNITS.finditer(gold):
        yield gold[: found.start()] + OTHER[found[0]] + gold[found.end() :]
    yield from (f"≠ {gold}", f"~{gold}", f"not {gold}", f"Not {gold}.", f"{gold} is wrong", f"{gold} or 7", f"{gold}^2")
    if gold not in ("yes", "no"):
        yield from (f"-{gold}", f">{gold}", f"{gold}, no: 7")
        yield from (
            f"-\\boxed{{{gold}}}",
            f"not \\boxed{{{gold}}}",
            f"\\boxed{{{gold}}}^2",
            f"\\boxed{{{gold}}} is wrong",
        )
    if not gold[-1].isalpha():
        yield f"{gold}!"


CHANGED = [
    (mutant, gold)
    for gold in GOLDS
    for mutant in dict.fromkeys(mutants(gold))
    if ZERO.sub("", mutant) != ZERO.sub("", gold)  # 00.25 and [-0, 1) mean the same
]


def accepted(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(answer, gold) for answer, gold in pairs if free_text(answer, [gold]).correct]


def test_an_answer_is_correct_in_every_layout() -> None:
    pairs = [(layout.format(gold), gold) for layout in LAYOUTS for gold in GOLDS]
    assert accepted(pairs) == pairs


@pytest.mark.parametrize("layouts", [1, pytest.param(len(LAYOUTS), marks=pytest.mark.slow)])
def test_no_mutant_of_an_answer_is_correct(layouts: int) -> None:
    """Each in one of the layouts, or in all."""
    pairs = [
        (LAYOUTS[(place + more) % len(LAYOUTS)].format(mutant), gold)
        for place, (mutant, gold) in enumerate(CHANGED)
        for more in range(layouts)
    ]
    assert len(pairs) >= 2_000 * layouts
    assert accepted(pairs) == []


def other_reference(row: Reply) -> Iterator[Reply]:
    """The row with another number, option, verdict or target as reference."""
    if row.options:
        yield row.model_copy(update={"gold": next(one for one in row.options if one != row.gold)})
    elif row.numbers:
        yield row.model_copy(update={"target": row.target + 1})
        yield row.model_copy(update={"numbers": [row.numbers[0] + 1, *row.numbers[1:]]})
    elif row.gold in ("yes", "no"):
        yield row.model_copy(update={"gold": {"yes": "no", "no": "yes"}[row.gold]})
    elif "%" not in row.reply:  # 50 % is both 50 and one half
        golds = [one for one in mutants(row.gold) if as_number(one) not in (None, as_number(row.gold))]
        yield from (row.model_copy(update={"gold": one}) for one in golds[::4])


RELAID = ("\n{}\n", "<answer>{}</answer>", "{} ")


@pytest.mark.parametrize("name", SCORERS)
def test_a_reply_is_right_for_one_reference_in_any_layout(name: str) -> None:
    score, wrong = SCORERS[name], []
    rows = [Reply.model_validate_json(line) for line in lines(f"{name}.jsonl")]
    for place, row in enumerate(rows):
        decision = score(row)
        relaid = row.model_copy(update={"reply": RELAID[place % len(RELAID)].format(row.reply)})
        wrong += [relaid] if {decision, score(relaid)} == {Decision.CORRECT, Decision.INCORRECT} else []
        if decision == Decision.CORRECT:
            wrong += [one for one in other_reference(row) if score(one) == Decision.CORRECT]
    assert wrong == []
