"""Extraction of the final answer from a longer text, and detection of refusals.

Models mark their answer as in their training: with `<answer>` tags (search agents), `\\boxed{}` (mathematics) or a line
"Answer: ..." (AgentFlow's generator, GAIA's prompt). Each mark is searched for within the result of the one before, so
that a box inside a tag is found. The last mark counts, because a model corrects itself at the end.
"""

import re
from collections.abc import Iterable

from agentflow.nodes.reply_parsing import data_objects, spoken
from agentflow.tools.redaction import ending

LONGEST = 10_000
"""Characters that are read, counted from the end. Answers are short, and the limit bounds the time."""

EMPHASIS = "*_` \n"
_OPEN = re.compile(r"<answer>", re.IGNORECASE)
_CLOSE = re.compile(r"</answer>", re.IGNORECASE)
_LABEL = re.compile(
    r"^[ \t*_#>-]*(?:the )?(?:final )?answer(?: is)?[*_ \t]*[:：][*_ \t]*|^#{1,6}[ \t*_]*(?:the )?(?:final answer"
    r"|answer|conclusion)[*_ \t]*$\n\s*|^[ \t*_#>-]*(?:最终)?答案[*_ \t]*[:：是][*_ \t]*",
    re.IGNORECASE | re.MULTILINE,
)
_LEAD = re.compile(
    r"(?:so,? |therefore,? )?(?:(?:the|my) (?:(?:final|correct) )?answer is:?|(?:it|he|she) (?:is|was)|it['’]s)\s+",
    re.IGNORECASE,
)
_APPENDED = re.compile(
    r"\n[^\S\n]{0,9}[*_#]{0,9}(?:TERMINATE\b|(?:[Ss]ources?|[Rr]eferences?)[*_]*:).*\Z|\s{1,9}TERMINATE\Z", re.DOTALL
)
"""Text that programs and search agents append to an answer."""
_CHANGED_BEFORE = re.compile(r"(?:\bnot |[≠¬] ?|\\neq? ?|[-−+/^√\d]|\\sqrt)[{(]?\Z")
_CHANGED_AFTER = re.compile(
    r"[})]?(?:[-−+/^²³](?!\{?\\circ)|\\?%|\\(?:pi|cdot|times|sqrt))(?! )|\$? (?:is|was) (?:not|wrong)\b"
)
"""Marks beside a box that change what is in it."""
_FIELDS = ("answer", "final_answer", "final answer", "choice")
_REFUSAL = re.compile(
    r"(?:(?:i am |i'm )?sorry,? )?(?:but )?(?:as an? [a-z ]{1,30},? )?(?:(?:i|we) (?:do not|don't|cannot|can't"
    r"|could not|couldn't|am unable to|was unable to|are unable to|have)|unable to) (?:know|tell|say|answer|determine"
    r"|find|identify|verify|have|be sure|no (?:answer|idea|information))[^.,;:\d]{0,100}|i(?:'m"
    r"| am) sorry, (?:but )?i (?:can't|cannot) (?:help|answer|assist)[^.,;:\d]{0,100}|(?:insufficient|not enough"
    r"|no) (?:information|context|data|evidence)[^.,;:\d]{0,100}|i have no idea(?:, sorry)?|unknown|undetermined"
    r"|(?:it )?(?:cannot|can't) be determined[^.,;:\d]{0,100}|not (?:known|available|found|sure)|nobody (?:knows"
    r"|can (?:say|tell))|none(?: of the (?:above|options|choices|answers)(?: (?:is|are) (?:correct|right|true))?)?"
    r"|none of (?:them|these)|no (?:answer|option)(?: was found)?|n/a|null|nothing(?: (?:was )?found)?"
    r"|(?:unfortunately,? )?(?:there (?:is|are|was|were) )?no (?:(?!one)[a-z]+ ){0,2}(?:info(?:rmation)?|idea|data"
    r"|results?|evidence|mention|sources?|records?|answer|match(?:es)?|articles?|pages?|documents?|details|consensus"
    r"|conclusion|clue|comment|telling|luck|way (?:to (?:know|tell|say|verify)|of (?:knowing|telling))|one (?:knows"
    r"|is (?:certain|sure)|can (?:say|tell)))\b[^.,;:\d]{0,100}",
    re.IGNORECASE,
)
_NEGATIVE = re.compile(
    r"\b(?:no|not|none|nobody|nothing|never|neither|cannot|un(?:known|certain|determined))\b", re.IGNORECASE
)
_NONE = re.compile(r"(?:none|null|nothing)\b", re.IGNORECASE)
_ZERO = re.compile(r"(?<![\d.,])0(?![\d.,]*[1-9])|\bzero\b", re.IGNORECASE)


def final_answer(text: str) -> str:
    """Return the marked final answer in `text`, or all of `text` without a mark; at most `LONGEST` characters."""
    return _APPENDED.sub("", _labelled(_boxed(_field(_tagged(spoken(ending(text, LONGEST))))))).strip()


def stated(answer: str) -> str:
    """Return a final answer by itself: without "The answer is", emphasis and quotation marks around it."""
    answer = answer.strip(EMPHASIS)
    answer = answer[lead.end() :].strip(EMPHASIS) if (lead := _LEAD.match(answer)) else answer
    quoted = len(answer) > 2 and answer[0] + answer[-1] in ('""', "''", "“”") and answer[0] not in answer[1:-1]
    return answer[1:-1] if quoted else answer


def refuses(answer: str, golds: Iterable[str] = ()) -> bool:
    """Return whether a final answer only states that there is no answer.

    Return False if one of `golds` is itself negative, such as "none", or 0 for "nothing": then it may be right.
    """
    said = " ".join(answer.replace("’", "'").split()).strip(" .!*_")
    if not _REFUSAL.fullmatch(said):
        return False
    return not any(_NEGATIVE.search(gold) or (_NONE.match(said) and _ZERO.search(gold)) for gold in golds)


def _tagged(text: str) -> str:
    parts = [_CLOSE.split(part, maxsplit=1)[0] for part in _OPEN.split(text)[1:]]
    return next((part for part in reversed(parts) if part.strip()), "" if parts else text)


def _field(text: str) -> str:
    """Return the field "answer" of a reply that is a JSON object, else `text`."""
    inside = text.strip().removeprefix("```json").strip("`\n ")
    if not (inside.startswith("{") and inside.endswith("}")):
        return text
    fields = {str(name).casefold(): value for name, value in next(data_objects(inside), {}).items()}
    return next((str(fields[name]) for name in _FIELDS if isinstance(fields.get(name), str | int | float)), text)


def _boxed(text: str) -> str:
    """Return the content of the last `\\boxed{}`, or the rest of the text if its brace is never closed.

    An operator or a negation beside the box belongs to the answer: -\\boxed{7}.
    """
    before, box, rest = text.rpartition("\\boxed")
    if not box or not rest.lstrip().startswith("{"):
        return text
    rest, depth = rest.lstrip(), 0
    for position, character in enumerate(rest):
        depth += (character == "{") - (character == "}")
        if depth == 0:
            inside, after = rest[1:position], rest[position + 1 :]
            if _CHANGED_BEFORE.search(before[-40:]) or _CHANGED_AFTER.match(after):
                line = before.rpartition("\n")[2]
                return f"{line}({inside}){after.partition(chr(10))[0]}"
            return inside
    return rest[1:]


def _labelled(text: str) -> str:
    """Return the text after the last "Answer:" at the start of a line."""
    _, *parts = _LABEL.split(text)
    return next((part for part in reversed(parts) if part.strip()), "" if parts else text)
