"""Game of 24 and its relatives: checking expressions, without ever evaluating text as code.

A generic mathematics scorer will not do: it accepts "24" for any puzzle. So an answer is taken apart by Python's own
parser, and only whole numbers, + - * / and brackets are let through; the value is an exact fraction.
"""

import ast
import re
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from agentflow.evals.scorers.final import final_answer
from agentflow.evals.scorers.latex import plain
from agentflow.evals.scorers.score import Score, decided

_LISTED = re.compile(r"^[ \t]*\d{1,2}[.)][ \t]+(?=[(\d])", re.MULTILINE)
"""The number of a line in a list, which is no part of an expression."""
_RUN = re.compile(r"[\d \t+\-*/().=]+")
_TIMES = re.compile(r"(?<=[\d)])[ \t]*[xX·•∙⋅][ \t]*(?=[\d(])")


def expression(answer: str, numbers: Sequence[int], target: int) -> Score:
    """Whether `answer` makes `target` from `numbers`; always decided.

    An expression may stand in a sentence and be written in LaTeX. Where there are several of full length, all must be
    right: an answer is no list of guesses.
    """
    text = _TIMES.sub("*", plain(_LISTED.sub("", final_answer(answer)))).replace("[", "(").replace("]", ")")
    runs = (run.strip(" \t.=*") for run in _RUN.findall(text))
    found = {run for run in runs if len(re.findall(r"\d+", run.partition("=")[0])) >= len(numbers)}
    return decided(bool(found) and all(makes_target(run, numbers, target) for run in found), "expression")


def makes_target(expression: str, numbers: Sequence[int], target: int) -> bool:
    """Whether `expression` uses each number once, with + - * / and brackets only, and equals `target` exactly."""
    expression = expression.strip()
    if len(expression) > 200:
        return False
    left, equals, right = expression.partition("=")
    if equals and right.strip() != str(target):
        return False
    try:
        tree = ast.parse(left.strip().replace("×", "*").replace("÷", "/").replace("−", "-"), mode="eval")
        used: list[int] = []
        value = _value(tree.body, used)
    except (SyntaxError, ValueError, ZeroDivisionError, MemoryError, RecursionError):
        return False
    return value == target and Counter(used) == Counter(numbers)


def _value(node: ast.expr, used: list[int]) -> Fraction:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        used.append(node.value)
        return Fraction(node.value)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div):
        left, right = _value(node.left, used), _value(node.right, used)
        if isinstance(node.op, ast.Add):
            return left + right
        if isinstance(node.op, ast.Sub):
            return left - right
        return left * right if isinstance(node.op, ast.Mult) else left / right
    raise ValueError("only numbers, + - * / and brackets")
