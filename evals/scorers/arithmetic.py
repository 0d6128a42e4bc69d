"""Exact values of calculations that a reply leaves unevaluated, such as 2^{10}, 200 + 4 or \\binom{8}{3}.

The text is parsed to a syntax tree and never executed.
"""

import ast
import math
import re
from fractions import Fraction

_WRITTEN = (
    (re.compile(r"\\[dt]?binom *\{(\d{1,4})\} *\{(\d{1,4})\}"), r"comb(\1,\2)"),
    (re.compile(r"\\sqrt|√"), "sqrt"),
    (re.compile(r"sqrt *(\d{1,20})"), r"sqrt(\1)"),
    (re.compile(r"(?<![\d.!])(\d{1,3})!(?!!)"), r"factorial(\1)"),
    (re.compile(r"[{\[]"), "("),
    (re.compile(r"[}\]]"), ")"),
    (re.compile(r"\^"), "**"),
    (re.compile(r" {0,9}(?:\\[bp]?mod|\bmod) {0,9}"), "%"),
    (re.compile(r"(?<=\d),(?=\d{3}\b)"), ""),
    (re.compile(r"(?<=[\d)]) *(?=\(|comb|sqrt|factorial)"), "*"),
)
_ALLOWED = re.compile(r"(?:[\d +\-*/%(),.]|comb|sqrt|factorial){1,200}")
_LARGEST = 10**60


def evaluate(text: str) -> Fraction | None:
    """Return the value of `text` if it is only a calculation with rational numbers, else None."""
    if "%" in text:  # percent, not the remainder
        return None
    for written, sign in _WRITTEN:
        text = written.sub(sign, text)
    text = text.strip(" .")
    if not _ALLOWED.fullmatch(text):
        return None
    try:
        return _value(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, TypeError, ZeroDivisionError, OverflowError, MemoryError, RecursionError):
        return None


def _value(node: ast.expr) -> Fraction:
    """Return the value of `node`. Raise ValueError if it is irrational, too large or not a calculation."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        value = Fraction(node.value)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = -_value(node.operand)
    elif isinstance(node, ast.BinOp):
        value = combined(node.op, _value(node.left), _value(node.right))
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        value = _applied(node.func.id, [_value(argument) for argument in node.args])
    else:
        raise ValueError("no calculation")
    if max(abs(value.numerator), value.denominator) > _LARGEST:
        raise ValueError("too large")
    return value


def combined(operator: ast.operator, left: Fraction, right: Fraction) -> Fraction:
    """Return the value of `left` `operator` `right`. Raise ValueError if it is irrational or too large."""
    match operator:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.Div():
            return left / right
        case ast.Mod() if left.denominator == right.denominator == 1 <= right:
            return left % right
        case ast.Pow() if right.denominator == 1 and abs(right) <= 200:
            return Fraction(left**right.numerator)
    raise ValueError("no calculation")


def _applied(function: str, arguments: list[Fraction]) -> Fraction:
    if any(one.denominator > 1 or one < 0 for one in arguments):
        raise ValueError("not of whole numbers")
    whole = [one.numerator for one in arguments]
    if function == "comb" and len(whole) == 2:
        return Fraction(math.comb(whole[0], whole[1]))
    if function == "factorial" and len(whole) == 1 and whole[0] < 50:
        return Fraction(math.factorial(whole[0]))
    if function == "sqrt" and len(whole) == 1 and math.isqrt(whole[0]) ** 2 == whole[0]:
        return Fraction(math.isqrt(whole[0]))
    raise ValueError("not rational")
