"""Multiple choice: which option an answer chooses, by its letter or by its text. GPQA, MedQA.

An answer chooses an option if it is its letter ("C", "(c)", "The answer is C."), its text and no other's, or both and
they agree. There is no fallback: a refusal chooses nothing, and what cannot be told is for a judge to *extract*, who
does not see which option is right.
"""

import re
from collections.abc import Mapping

from agentflow.evals.scorers.final import final_answer, refuses
from agentflow.evals.scorers.free_text import normalise, same
from agentflow.evals.scorers.latex import plain
from agentflow.evals.scorers.score import Score, decided, undecided

_LEAD = re.compile(
    r"(?:(?:so|thus|therefore|hence),? )?(?:i (?:choose|pick|select) )?(?:the )?"
    r"(?:(?:correct|best|right|final|most likely|most appropriate) ){0,3}"
    r"(?:answer|option|choice)?(?: is| would be)?:? ?(?:option |choice )?",
    re.IGNORECASE,
)
_LETTER = re.compile(r"[(\[]?([A-Za-z])[)\].:,-]{0,2}(?:$|(?<=[)\].:,-]) ?(?P<rest>.+)| - (?P<after>.+))", re.DOTALL)


def option(answer: str, options: Mapping[str, str], gold: str) -> Score:
    """Whether `answer` chooses the option with the letter `gold`; `options` are texts by capital letter."""
    text = " ".join(plain(final_answer(answer)).replace("**", "").split()).strip("*_` ")
    if not text:
        return decided(False, "no answer")
    by_text = {letter for letter, content in options.items() if same(text, content)}
    by_letter = _by_letter(text, options)
    if len(by_text | by_letter) == 1:
        return decided(by_text | by_letter == {gold}, "option letter" if by_letter else "option text")
    if not by_text and refuses(text, options.values()):
        return decided(False, "no answer")
    return undecided("no single option")


def _by_letter(text: str, options: Mapping[str, str]) -> set[str]:
    """The letter at the start of `text`, if nothing but that option's text follows."""
    lead = _LEAD.match(text)
    found = _LETTER.fullmatch(text, lead.end() if lead else 0) or _LETTER.fullmatch(text)
    if not found or found[1].upper() not in options:
        return set()
    letter, rest = found[1].upper(), found["rest"] or found["after"] or ""
    return {letter} if not rest or _is_text_of(letter, rest, options) else set()


def _is_text_of(letter: str, rest: str, options: Mapping[str, str]) -> bool:
    """Whether `rest` is the option's text, a part of it, or the text and an explanation that names no other."""
    said, own = f" {normalise(rest)} ", f" {normalise(options[letter])} "
    others = [f" {normalise(content)} " for other, content in options.items() if other != letter]
    if len(said) > 4 and said in own:
        return said == own or said not in others
    return said.startswith(own) and not any(other in said for other in others if other not in own)
