"""Conversion of answers in LaTeX to plain text.

Only commands that are common in answers are converted. Other commands keep their backslash, so that a scorer can detect
text that it cannot read.
"""

import re
import unicodedata

_SHORT_FRACTION = re.compile(r"\\[dtc]?frac[ \t]*(\d)[ \t]*(\d)")
_INNERMOST = re.compile(
    r"\\(?:text|mathrm|textbf|mathbf|textit|mbox|fbox|underline|boldsymbol|operatorname)[ \t]*\{(?P<font>[^{}]*)\}"
    r"|\\[dtc]?frac[ \t]*\{(?P<above>[^{}]*)\}[ \t]*\{(?P<below>[^{}]*)\}"
)
_SPACING = re.compile(
    r"\\(?:left|right|displaystyle|[bB]igg?[lr]?)(?![a-zA-Z])|\\[!,;: ()\[\]]|\$|\^?\{?\\circ\}?|°|\{,\}"
)
_COMMANDS = r"\times \cdot \div \% \leq \le \geq \ge \neq \ne \pm \infty \in \cup".split()
_SIGNS = dict(
    zip([*"×⋅∙∗÷−–﹣－﹢＋\u2044\u00a0\u202f\u2009", *_COMMANDS], "****/----++/   **/%≤≤≥≥≠≠±∞∈∪", strict=True)
)
_SIGN = re.compile("|".join(re.escape(sign) + r"(?![a-zA-Z])" * sign[-1].isalpha() for sign in _SIGNS))
_RAISED = re.compile("[⁺⁻]?[⁰¹²³⁴-⁹]+")
_VULGAR = re.compile(r"((?<=\d) ?|(?<=\w))?([¼½¾⅐-⅞])")
_GREEK = re.compile(
    r"\\(alpha|beta|gamma|delta|epsilon|theta|lambda|mu|nu|pi|rho|sigma|tau|phi|psi|omega|Omega|Delta|Sigma|Phi|Psi)"
    r"(?![a-zA-Z])"
)
_DEEPEST = 8
"""Levels of nested commands that are converted."""


def plain(text: str) -> str:
    """Return `text` without LaTeX spacing, fonts and dollar signs; fractions as (a/b), x² as x^2, × as *."""
    text = _VULGAR.sub(lambda match: " " * (match[1] is not None) + unicodedata.normalize("NFKC", match[2]), text)
    text = _RAISED.sub(lambda match: "^" + unicodedata.normalize("NFKC", match[0]), text)
    text = _SIGN.sub(lambda match: _SIGNS[match[0]], text.replace(r"\$", " "))
    text = _GREEK.sub(_letter, text)
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


def _letter(match: re.Match[str]) -> str:
    size = "CAPITAL" if match[1][0].isupper() else "SMALL"
    return unicodedata.lookup(f"GREEK {size} LETTER {match[1].upper().replace('LAMBDA', 'LAMDA')}")
