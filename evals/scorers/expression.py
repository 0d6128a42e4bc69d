"""Scorer of Game of 24 and similar puzzles: reads the expression in a reply without executing text as code.

A generic mathematics scorer is not sufficient, because it accepts "24" for any puzzle. Each formula of the reply is
parsed with `ast`; only whole numbers, + - * / and brackets are accepted, and the value is an exact fraction.

A reply may show its work. A formula that uses at least as many numbers as the puzzle has, and states the target or no
value, is a claim; one that states another value ("= 20") is only an attempt. The last claim must be right, the text
around it must not change its value (a root, a power, "half of", "is not 24"), and the formulas it is equated with must
equal it. If there is no claim, steps that use up the numbers are read: "8 - 4 = 4, 3 + 3 = 6, 4 * 6 = 24".

For comparison, the script of Tree of Thoughts (Yao et al., NeurIPS 2023) takes the last line up to its first "=",
compares its digits with the puzzle's and simplifies the line with sympy. The script of the AgentFlow paper asks a judge
to compare the reply with listed solutions.
"""

import ast
import html
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from agentflow.evals.scorers.final import LONGEST, final_answer
from agentflow.evals.scorers.latex import plain
from agentflow.evals.scorers.score import Score, decided, undecided

RULE = "expression"

_WIDE = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_SIGNS = _WIDE | str.maketrans("×✕✖⨯∗·•∙⋅÷∕⁄−–—‐‑‒﹣〔〕[]{}\u00a0\u2009\u202f", "*********///-------()()()   ")
_LAYOUT = re.compile(
    r"\\(?:begin|end) ?\{[a-z]{1,20}\*?\}|\\\\|\\(?:q?quad|implies|therefore|checkmark|[Rr]ightarrow|to)(?![a-zA-Z])"
)
_REWRITTEN = (
    (re.compile(r"\\(?:neq?|not ?=)(?![a-zA-Z])|!=|=/=|=\\=|≠"), " is not "),
    (re.compile(r"\\approx(?![a-zA-Z])|[≈≅≃]"), "="),
    (re.compile(r"\\(?=[*_+-])"), ""),
    (re.compile(r"&|`|\bprint(?=\()|(?<=[\d)]) ?#.*"), " "),
    (re.compile(r"(?<=[\d)])(?: : ?|:)(?=[\d(])"), "/"),
    (re.compile(r"[=-]>|[→⇒⟹➔]|(?<=\d) (?=\d)"), " ; "),
    (re.compile(r"^ ?(?:\d{1,2}[.)]|[-*•+]) (?=[(\d])", re.MULTILINE), ""),  # list markers
    (
        re.compile(
            r"(?<![\d)])\*\*|\*\*(?![\d(])|(?:^|(?<=[A-Za-z:.] ))[*_](?=[(\d])|(?<=[\d)])[*_](?=\.?$)", re.MULTILINE
        ),
        "",
    ),
    (re.compile(r"(?<=[\d)]) ?(?:[xX]|times|multiplied by) ?(?=[(\d])"), "*"),
    (re.compile(r"(?<=[\d)]) ?(?:divided by|over) ?(?=[(\d])"), "/"),
    (re.compile(r"(?<=[\d)]) ?plus ?(?=[(\d])"), "+"),
    (re.compile(r"(?<=[\d)]) ?minus ?(?=[(\d])"), "-"),
    (
        re.compile(
            r"(?<=[\d)]) ?,? ?(?:(?:which|and|that|it) )?(?:is equal to|evaluates to|works out to|comes to"
            r"|results in|is|equals|gives|makes|yields) (?:exactly )?(?=\d)",
            re.IGNORECASE,
        ),
        "=",
    ),
    (re.compile(r"=(?: ?=){1,3}"), "="),
    (re.compile(r"\n ?(?==)"), " "),
    (re.compile(r"(?<=[\d)]) ?\((?=[^()=]{0,80}(?:\([^()=]{0,80}\)[^()=]{0,80}){0,9}=)"), " ; "),  # "= 24 (4*6 = 24)"
)
"""Replacements for the ways in which models write arithmetic signs, applied in order."""
_LISTING = re.compile(r"(?<![\d.+*/=-])(?<![+*/=-] )\d{1,4}(?:(?: ?[,;]| and| ) ?(?:and )?\d{1,4}){1,9}(?! ?[-+*/=\d])")
_FORMULA = re.compile(r"(?:[\d +\-*/()=\t]|\.(?=\d))+")
_IMPLICIT = re.compile(r"(?<=[\d)]) ?(?=\()|(?<=\)) ?(?=\d)")
_CHANGED_BEFORE = re.compile(
    r"[A-Za-z_\^√∛!%\\²³½¼¾⅓⅔]\(*\Z|[A-Za-z_)!%²³½¼¾⅓⅔] ?(?:[+*/]|-(?! )) ?\(*\Z"
    r"|\b(?:sqrt|log|ln|exp|abs|mod|half|twice|thrice|double|triple|squared?|cubed?|factorial|negative|minus|plus|times"
    r"|(?:half|third|quarter|percent|root|log|logarithm|factorial|square|cube|power|inverse|reciprocal|opposite|\d|%)"
    r" of) (?:(?:the|a|result|sum|product|value|quantity|number|of) ){0,3}\Z",
    re.IGNORECASE,
)
_CHANGED_AFTER = re.compile(
    r"[\^%²³√]|!(?=\s*[-+*/=)])|[A-Za-z_]| ?[+*/] ?[^\s*]|-(?=[A-Za-z\\√])"
    r"| ?,? ?(?:(?:and|then) ){0,2}(?:\^|%|percent|squared|cubed|factorial|mod|modulo|to the power|raised"
    r"|rounded|minus|plus|times|divided|multiplied|subtract|add|multiply|divide|halve|double|square|round|take)\b",
    re.IGNORECASE,
)
_DENIED_AFTER = re.compile(
    r" ?,? ?(?:(?:but|which|and|that|this|it) ){0,2}"
    r"(?:is|are|does|do|did|was|will|would|can)?(?: ?n['’]t| ?not| ?never|not)\b"
    r"| ?,? ?(?:(?:but|which|and|that|this|it) ){0,2}(?:is|was|fails|looks)? ?"
    r"(?:wrong|incorrect|invalid|false|too (?:big|small|large|high|low)|fails?)\b",
    re.IGNORECASE,
)
_DENIED_BEFORE = re.compile(
    r"\b(?:not|never|n['’]t|wrong|incorrect|avoid|instead of|rather than|except|cannot be|false that)"
    r" ?(?:(?:use|be|is|to say|answer|write|it|that|work|the|with|as|:) ?){0,3}\Z",
    re.IGNORECASE,
)
_NO_SOLUTION = re.compile(
    r"\b(?:no (?:valid |such |possible )?(?:solution|answer|expression|way)|impossible|(?:cannot|can't|can’t|not) be"
    r" (?:made|done|reached|solved)|not (?:possible|solvable|valid|allowed|permitted)|unsolvable|(?:wrong|incorrect"
    r"|invalid)"
    r"|(?:does|do|is|are|did)(?: not|n['’]t)(?: (?:work|right|correct|valid|equal|make|give)))\b",
    re.IGNORECASE,
)
_IN_DOUBT = re.compile(
    r"\?|\b(?:unless|approximately|about|almost|roughly|nearly|close|closest|if|would need|root|roots|log|logarithm"
    r"|factorial"
    r"|power|exponent|concatenat\w*|percent)\b|[√∛^]",
    re.IGNORECASE,
)
_IN_WORDS = re.compile(
    r"\b(?:add|subtract|multiply|divide)(?:ing)?\b|^\|[^|\n]{1,80}\|[^|\n]{1,80}[-+*/][^|\n]{1,80}\|",
    re.IGNORECASE | re.MULTILINE,
)
_SENTENCES = re.compile(r"(?<=[.!?])\s|\n")
_LONGEST = 200
_READ = 400
"""Most formulas that are read, counted from the end of the reply."""


def expression(answer: str, numbers: Sequence[int], target: int) -> Score:
    """Score whether `answer` makes `target` from `numbers`, each used once; undecided if its wording is ambiguous."""
    final = final_answer(answer)
    text = _rewritten(answer[-LONGEST:] if final.strip(" .$") == str(target) else final, numbers)
    formulas = [_Formula.of(match, numbers, target) for match in [*_FORMULA.finditer(text)][-_READ:]]
    claims = [one for one in formulas if one.claims]
    if not claims:
        done = _steps([one.sides for one in formulas if one.stands], numbers, target)
        if done is None or (not done and _IN_WORDS.search(text) and Counter(numbers) <= Counter(_whole(text))):
            return undecided("steps in words or with fractions")
        return decided(done, RULE)
    last = claims[-1]
    if not last.right or _NO_SOLUTION.search(text[last.end :]):
        return decided(False, RULE)
    sentence = _SENTENCES.split(text[: last.start])[-1] + _SENTENCES.split(text[last.start :].lstrip())[0]
    if not all(one.right for one in claims) or not last.consistent or _IN_DOUBT.search(sentence):
        return undecided("more than one claim, or one in doubt")
    return decided(True, RULE)


def makes_target(expression: str, numbers: Sequence[int], target: int) -> bool:
    """Return whether `expression` uses each number once, only + - * / and brackets, and equals `target` exactly."""
    expression = expression.strip()
    if len(expression) > _LONGEST:
        return False
    left, equals, right = expression.partition("=")
    if equals and right.strip() != str(target):
        return False
    used: list[int | None] = []
    value = _evaluated(left.strip().replace("×", "*").replace("÷", "/").replace("−", "-"), used)
    return value == target and Counter(used) == Counter(numbers)


@dataclass(frozen=True)
class _Side:
    """One side of an equation."""

    value: Fraction | None
    used: Counter[int | None]
    """The whole numbers in it, with counts. None counts decimals and negative signs, which no puzzle has."""

    @classmethod
    def of(cls, text: str) -> "_Side":
        used: list[int | None] = []
        return cls(_evaluated(_IMPLICIT.sub("*", text.strip()), used), Counter(used))


@dataclass(frozen=True)
class _Formula:
    """Expressions joined by "=", and how the text around them affects them."""

    start: int
    end: int
    sides: tuple[_Side, ...]
    claims: bool
    """Whether the reply presents it as a solution."""
    right: bool
    consistent: bool
    stands: bool
    """Whether no text around it denies it or changes its value."""

    @classmethod
    def of(cls, match: re.Match[str], numbers: Sequence[int], target: int) -> "_Formula":
        found, inner = match[0], _trimmed(match[0])
        start = match.start() + found.find(inner)
        before = match.string[max(0, start - 100) : start]
        after = match.string[start + len(inner) : match.end() + 100]
        sides = tuple(_Side.of(side) for side in inner.split("=") if side.strip())
        whole = [side for side in sides if side.used.total() - side.used[None] >= len(numbers)]
        parts = [side for side in sides if side not in whole]
        denied = bool(_DENIED_AFTER.match(after) or _DENIED_BEFORE.search(before))
        changed = bool(_CHANGED_BEFORE.search(before) or _CHANGED_AFTER.match(after))
        return cls(
            match.start(),
            match.end(),
            sides,
            claims=bool(whole) and not denied and (not parts or parts[-1].value in (None, target)),
            right=not changed and all(side.value == target and side.used == Counter(numbers) for side in whole),
            consistent=all(_near(side, target) for side in parts) and bool(parts or not after.startswith("!")),
            stands=not denied and not changed,
        )


def _rewritten(text: str, numbers: Sequence[int]) -> str:
    """Return `text` with Python's operators, without layout, list markers and listings of the puzzle's numbers."""
    text = plain(_LAYOUT.sub("\n", html.unescape(text))).translate(_SIGNS)
    text = "\n".join(" ".join(line.split()) for line in text.splitlines() if line.strip())
    text = _LISTING.sub(lambda match: ";" if Counter(_whole(match[0])) == Counter(numbers) else match[0], text)
    for written, sign in _REWRITTEN:
        text = written.sub(sign, text)
    return text


def _whole(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]


def _trimmed(formula: str) -> str:
    """Return a formula without stray signs at its ends and without outer brackets that have no counterpart."""
    formula = formula.rstrip(" \t=*/+(-").lstrip(" \t=*/+)").removeprefix("- ")
    excess = formula.count("(") - formula.count(")")
    if excess > 0 and formula.startswith("("):
        return formula[min(excess, len(formula) - len(formula.lstrip("("))) :]
    if excess < 0 and formula.endswith(")"):
        return formula[: len(formula) - min(-excess, len(formula) - len(formula.rstrip(")")))]
    return formula


def _near(side: _Side, target: int) -> bool:
    """Return whether a side equals the target; within 1 % if the side contains a decimal, which may be rounded."""
    if side.value is None or None not in side.used:
        return side.value == target
    return abs(side.value - target) * 100 <= abs(target)


def _steps(chains: Sequence[tuple[_Side, ...]], numbers: Sequence[int], target: int) -> bool | None:
    """Return whether the steps, each a chain "a + b = c", use up all numbers and results and end at the target.

    Return None if a step makes a fraction, because later steps cannot be matched with it.
    """
    pool = Counter(Fraction(number) for number in numbers)
    for sides in chains:
        if len(sides) < 2 or sides[0].used.total() < 2:
            continue
        taken = Counter(Fraction(number) for number in sides[0].used.elements() if number is not None)
        if not taken <= pool or any(side.value != sides[0].value for side in sides) or sides[0].value is None:
            return False
        if sides[0].value.denominator > 1:
            return None
        pool = pool - taken + Counter([sides[0].value])
        if pool == Counter([Fraction(target)]):
            return True
    return False


def _evaluated(text: str, used: list[int | None]) -> Fraction | None:
    if len(text) > _LONGEST:
        return None
    try:
        return _value(ast.parse(text, mode="eval").body, used)
    except (SyntaxError, ValueError, ZeroDivisionError, OverflowError, MemoryError, RecursionError):
        return None


def _value(node: ast.expr, used: list[int | None]) -> Fraction:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        used.append(node.value if isinstance(node.value, int) else None)
        return Fraction(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        used.append(None)  # negation is not an operation of the puzzle
        return -_value(node.operand, used)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div):
        if isinstance(node.op, ast.Add) and isinstance(node.left, ast.UnaryOp):  # -a + b is b - a
            if not isinstance(node.left.op, ast.USub):
                raise ValueError("only numbers, + - * / and brackets")
            return _value(ast.BinOp(node.right, ast.Sub(), node.left.operand), used)
        left, right = _value(node.left, used), _value(node.right, used)
        if isinstance(node.op, ast.Add):
            return left + right
        if isinstance(node.op, ast.Sub):
            return left - right
        return left * right if isinstance(node.op, ast.Mult) else left / right
    raise ValueError("only numbers, + - * / and brackets")
