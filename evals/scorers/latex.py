"""Answers written in LaTeX, as plain text. Only what answers are made of; the rest keeps its backslash, so that a
scorer sees that there is something it cannot read."""

import re

_SHORT_FRACTION = re.compile(r"\\[dtc]?frac[ \t]*(\d)[ \t]*(\d)")
_INNERMOST = re.compile(
    r"\\(?:text|mathrm|textbf|mathbf|textit|mbox|boldsymbol|operatorname)[ \t]*\{(?P<font>[^{}]*)\}"
    r"|\\[dtc]?frac[ \t]*\{(?P<above>[^{}]*)\}[ \t]*\{(?P<below>[^{}]*)\}"
)
_SPACING = re.compile(
    r"\\(?:left|right|displaystyle|[bB]igg?[lr]?)(?![a-zA-Z])|\\[!,;: ()\[\]]|\$|\^?\{?\\circ\}?|°|\{,\}"
)
_SIGNS = {
    r"\times": "*",
    r"\cdot": "*",
    r"\div": "/",
    r"\%": "%",
    "×": "*",
    "÷": "/",
    "−": "-",
    "–": "-",
    "\u2044": "/",
    "\u00a0": " ",
    "\u202f": " ",
    "\u2009": " ",
}
_SIGN = re.compile(r"\\(?:times|cdot|div)(?![a-zA-Z])|\\%|[×÷−–\u2044\u00a0\u202f\u2009]")
_DEEPEST = 8
"""Commands inside commands that are read."""


def plain(text: str) -> str:
    """`text` without LaTeX's spacing, font and dollar signs; fractions as (a/b), operators as * and /."""
    text = _SIGN.sub(lambda match: _SIGNS[match[0]], text.replace(r"\$", " "))
    text = _SPACING.sub(lambda match: "," if match[0] == "{,}" else " " if match[0].endswith(" ") else "", text)
    text = _SHORT_FRACTION.sub(r"(\1/\2)", text)
    for _ in range(_DEEPEST):
        text, replaced = _INNERMOST.subn(_unwrapped, text)
        if not replaced:
            break
    return text


def _unwrapped(match: re.Match[str]) -> str:
    if match["font"] is not None:
        return f" {match['font']} "
    above, below = (
        part if part.isdigit() else f"({part})" for part in (match["above"].strip(), match["below"].strip())
    )
    return f"({above}/{below})"
