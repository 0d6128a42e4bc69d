"""Scorer of Game of 24 and similar puzzles: reads the expression in a reply without executing text as code.

A generic mathematics scorer is not sufficient, because it accepts "24" for any puzzle. Each formula of the reply is
parsed with `ast`; only whole numbers, + - * / and brackets are accepted, and the value is an exact fraction.

A reply may show its work. A formula that uses at least as many numbers as the puzzle has, and states the target or no
value, is a claim; one that states another value ("= 20") is only an attempt. The last claim must be right, and the
formulas it is equated with must equal it. It is accepted only if its sentence consists of known words and signs
(`_KNOWN`), because any other may change its value ("the derivative of", "in base 9"). What surely changes or denies it
(a root, a power, "is not 24") makes it wrong. If there is no claim, steps that use up the numbers are read:
"8 - 4 = 4, 3 + 3 = 6, 4 * 6 = 24".

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

from agentflow.evals.scorers.arithmetic import combined
from agentflow.evals.scorers.final import LONGEST, final_answer
from agentflow.evals.scorers.latex import plain
from agentflow.evals.scorers.score import Score, decided, undecided

RULE = "expression"

_WIDE = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_SIGNS = _WIDE | str.maketrans("×✕✖⨯∗·•∙⋅÷∕⁄−–—‐‑‒﹣〔〕[]{}\u00a0\u2009\u202f", "*********///-------()()()   ")
_LAYOUT = re.compile(
    r"\\(?:begin|end) ?\{[a-z]{1,20}\*?\}|\\\\|\\(?:q?quad|implies|therefore|checkmark|[Rr]ightarrow|to)(?![a-zA-Z])"
)
_DEGREES = re.compile(r"\^?\{?\\circ\}?|°")
_REWRITTEN = (
    (re.compile(r"\\(?:neq?|not ?=)(?![a-zA-Z])|!=|<>|=/=|=\\=|≠"), " is not "),
    (re.compile(r"\\approx(?![a-zA-Z])|[≈≅≃]"), "="),
    (re.compile(r"\\(?=[*_+-])"), ""),
    (re.compile(r"&|`|\bprint(?=\()|(?<=[\d)]) ?#.*|</?[a-z]{1,10}>|^ ?>+ (?=\S)", re.MULTILINE), " "),
    (re.compile(r"(?<=[\d)])(?: : ?|:)(?=[\d(])"), "/"),
    (re.compile(r"(?<=[\d)]) ?(?:[=-]>|[→⇒⟹➔]) ?(?=\d{1,6}(?:\.\d{1,6})?[ .!]*$)", re.MULTILINE), "="),
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
            r"(?<=[\d)]) ?,? ?(?:(?:which|and|that|it) )?(?:is equal to|evaluates (?:exactly )?to|works out to"
            r"|comes (?:out )?to|amounts to|totals|results in|is|would be|equals|gives(?: us| you)?|makes|yields)"
            r" (?:exactly )?(?=\d)",
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
    r"[A-Za-z_\^!%‰²³½¼¾⅓⅔|\\]\(*\Z|[A-Za-z_]\([^()]{0,60}, ?\(*\Z|[√∛∜∑∏∫~¬⌊⌈<>≤≥≪≫±] ?\(*\Z"
    r"|[A-Za-z_)!%²³½¼¾⅓⅔] ?(?:[+*/]|-(?! )) ?\(*\Z|\b(?:sqrt|log|ln|exp|abs|mod|half|twice|thrice|double|triple"
    r"|squared?|cubed?|factorial|negative|minus|plus|times|(?:half|third|quarter|percent|root|log|logarithm|factorial"
    r"|square|cube|power|inverse|reciprocal|opposite|digits|derivative|integral|\d) of|(?:add|subtract|multiply"
    r"|divide)\b[^.;:=]{0,20} (?:to|from|by|with)) (?:(?:the|a|result|sum|product|value|quantity|number|of) ){0,3}\Z",
    re.IGNORECASE,
)
_CHANGED_AFTER = re.compile(
    r" ?(?:[\^%‰²³√~⌋⌉<>≤≥≪≫]|!(?=\s*[-+*/=)]))|\||[A-Za-z_]| ?[+*/] ?[^\s*]|-(?=[A-Za-z\\√])"
    r"| ?,? ?(?:(?:and|then) ){0,2}(?:percent|squared|cubed|factorial|mod|modulo|to the power|raised"
    r"|rounded|minus|plus|times|divided|multiplied|subtract|add|multiply|divide|halve|double|square|round|take)\b",
    re.IGNORECASE,
)
_DENIED_AFTER = re.compile(
    r" ?,? ?(?:(?:but|which|and|that|this|it) ){0,2}(?:is|are|does|do|did|was|will|would|can)?(?: ?n['’]t| ?not"
    r"| never) {0,2}(?:equal|give|make|work|reach|come|yield|be|valid|right|correct|possible|allowed|permitted"
    r"|a (?:valid )?solution|24|it|quite)\b| ?,? ?(?:is|does|will|would|can)(?: ?n['’]t| ?not)(?=[.,;:!?)]|\Z)"
    r"| ?,? ?(?:(?:but|which|and|that|this|it) ){0,2}(?:is|was|fails|looks)? ?(?:wrong|incorrect|invalid|false"
    r"|too (?:big|small|large|high|low)|fails?)\b",
    re.IGNORECASE,
)
_DENIED_BEFORE = re.compile(
    r"\b(?:not|never|n['’]t|neither|wrong|incorrect|avoid|instead of|rather than|except|cannot be|false that)"
    r" ?(?:(?:use|be|is|to say|to claim|that|answer|write|it|work|the|with|as|:) ?){0,3}\Z",
    re.IGNORECASE,
)
_NO_SOLUTION = re.compile(
    r"\b(?:no (?:valid |such |possible )?(?:solution|answer|expression|way)|impossible|(?:cannot|can't|can’t|not) be"
    r" (?:made|done|reached|solved)|not (?:possible|solvable|valid|allowed|permitted|right|correct|(?:equal )?24)"
    r"|(?:give|gave) up|unsolvable|(?:wrong|incorrect|invalid)"
    r"|(?:does|do|is|are|did)(?: not|n['’]t)(?: (?:work|right|correct|valid|equal|make|give)))\b",
    re.IGNORECASE,
)
_HARMLESS = re.compile(
    r"[,(]? ?\b(?:which |and |it )?(?:(?:does|do|did|is|was)(?: not|n['’]t)|not|no|without|rather than|instead of)"
    r" (?:the only|(?:another|other|further|additional|extra|fancy|special)|an?y? (?:other|further|extra)|requir\w+"
    r"|need\w*|involv\w+|(?:us(?:e|ing) )?(?:an?y )?(?:other|powers?|roots?|square roots?|factorials?|exponents?"
    r"|logarithms?|concatenation|decimals?|fractions?|division|tricks?|numbers? (?:twice|again)|numbers? (?:is|are|was)"
    r" (?:used twice|repeated|reused|left(?: over)?))|(?=[(\d])(?!24\b))[^.;:!?]*",
    re.IGNORECASE,
)
"""Negations that deny nothing: "not 8*3", "does not require division", "no roots needed", "not the only solution"."""
_KNOWN = frozenset(
    """
    a an the this that these those it its it's that's which here here's there there's i i'll i've i'd we we'll we've
    let's you your my me us our them they
    is are was be been being can do does did will has have
    answer answers solution solutions solved solve solving solves expression expressions equation formula result value
    way ways method approach possibility combination calculation computation arrangement puzzle problem game example
    final valid correct right complete exact possible simple simplest working works work following given required
    desired goal target total true full below above
    so thus therefore hence then now finally first second third next after before also again and or
    because since as where when while with by from of to for in on at up out into via namely i.e
    using use uses used exactly precisely once each every all both number numbers digit digits only just simply directly
    operation operations operator operators arithmetic basic standard four three two one six sixes others other another
    alternatively alternative either instead even too
    add adding addition subtract subtracting subtraction multiply multiplying multiplication divide dividing division
    product brackets parentheses bracket parenthesis fraction fractions order
    gives give giving get gets got equals equal make makes making made yields yield produces produce reach reaches
    reaching obtain obtained obtains found find finds evaluates comes check checks checking verify verifying
    verification verified confirmed confirms proof step steps simplifies becomes leads
    yes sure great ok okay done easy easily nice good fine certainly absolutely course indeed voilà bingo like try tried
    trying go write written writing express expressed form needed needs need together thinking
    solución solution posible respuesta una un el la es son lösung die der das eine ein mögliche lautet ist voici
    peut on écrire une soluzione ecco può può si scrivere così risposta antwort ergebnis réponse résultat
    답은 정답 答案 答案是 答え 正解 解 ответ expressão é resposta
    start starting number's p s m n e
    """.split()
)
"""Words that leave the value of a formula in their sentence as it is, and do not doubt it."""
_KNOWN_SIGNS = frozenset(" .,;:!'’\"“”()|-*_•·✓✔✅☑🎉🙂😊😀👍")
_TOKEN = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?|[^\w\s]|_")
_SECOND_THOUGHT = re.compile(r"\b(?:wait|hmm+|actually|oops|sorry|correction|mistaken?|error|no,)", re.IGNORECASE)
_REFERS = re.compile(r"\W*(?:that|this|it|which)\b", re.IGNORECASE)
_OPERAND = re.compile(
    r"\b(?:add|subtract|multiply|divide)(?:ing)? \(*\Z"
    r"|\b(?!(?:value|result|expression|form|combination|solution|way)\b)[a-z]+ of (?:the )?\(*\Z",
    re.IGNORECASE,
)
_OWN_FORMULA = re.compile(r"[\d)] ?[-+*/] ?[\d(]")
_IN_WORDS = re.compile(
    r"\b(?:add|subtract|multiply|divide)(?:ing)?\b|^\|[^|\n]{1,80}\|[^|\n]{1,80}[-+*/][^|\n]{1,80}\|",
    re.IGNORECASE | re.MULTILINE,
)
_BUT = re.compile(r"(?:^|(?<=[,;.:—\n] ))but\b|\b(?:however|instead)\b(?! of)", re.IGNORECASE)
_CLAUSES = re.compile(r"[:;]")
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
    before, after = _SENTENCES.split(_BUT.split(text[: last.start])[-1]), _SENTENCES.split(text[last.end :])
    if not last.right or any(_takes_back(sentence) for sentence in after[1:]):
        return decided(False, RULE)
    words, values = f"{before[-1]} ; {after[0]}", f"{_CLAUSES.split(before[-1])[-1]} ; {after[0]}"
    known = _known(words) and not _OPERAND.search(before[-1]) and not _other_result(values, target)
    doubted = any(map(_takes_back, before[:-1])) or any(_doubts(sentence, target) for sentence in after[1:])
    if doubted or not (known and last.consistent and all(one.right for one in claims)):
        return undecided("more than one claim, or one in doubt")
    return decided(True, RULE)


def _known(around: str) -> bool:
    """Return whether the text around a claim has only known words and signs."""
    tokens = _TOKEN.findall(_FORMULA.sub(" ", _HARMLESS.sub(";", around)))
    return all(token in _KNOWN_SIGNS or token.lower().replace("’", "'") in _KNOWN for token in tokens)


def _other_result(around: str, target: int) -> bool:
    """Return whether the text around a claim has a number by itself that is not the target: "E, that is 26"."""
    sides = [_Side.of(_trimmed(match[0])) for match in _FORMULA.finditer(_HARMLESS.sub(";", around))]
    return any(side.used.total() == 1 and side.value != target for side in sides)


def _takes_back(sentence: str) -> bool:
    """Return whether a sentence states that there is no solution, or denies the formula of another sentence."""
    return not _OWN_FORMULA.search(sentence) and _NO_SOLUTION.search(_HARMLESS.sub(";", sentence)) is not None


def _doubts(sentence: str, target: int) -> bool:
    """Return whether a sentence after the claim hesitates or states another result: "Hmm, that equals 22"."""
    other = _REFERS.match(sentence) and not _OWN_FORMULA.search(sentence) and _other_result(sentence, target)
    return bool(other or _SECOND_THOUGHT.search(sentence))


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
            start,
            start + len(inner),
            sides,
            claims=bool(whole) and not denied and (not parts or parts[-1].value in (None, target)),
            right=not changed and all(side.value == target and side.used == Counter(numbers) for side in whole),
            consistent=all(_near(side, target) for side in parts) and bool(parts or not after.lstrip().startswith("!")),
            stands=not denied and not changed,
        )


def _rewritten(text: str, numbers: Sequence[int]) -> str:
    """Return `text` with Python's operators, without layout, list markers and listings of the puzzle's numbers."""
    text = plain(_LAYOUT.sub("\n", _DEGREES.sub("‰", html.unescape(text)))).translate(_SIGNS)
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
        return combined(node.op, _value(node.left, used), _value(node.right, used))
    raise ValueError("only numbers, + - * / and brackets")
