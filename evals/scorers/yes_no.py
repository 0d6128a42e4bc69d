"""Detection of a yes or a no in an answer.

The word must be used as an answer: "No, they are not", "The answer is yes", "..., so yes". "No" as part of another
phrase ("no one knows", "no doubt") and an answer that is qualified later ("yes, but ...") do not count.
"""

import re

_YES = (
    r"yes|sí|sim|oui|ja|yeah|yep|yup|true|correct|indeed|affirmative|(?:certainly|definitely|absolutely|of course"
    r"|surely)(?! not\b)|(?:i )?(?:think|believe|would say) so|right|是的?|对的?"
)
_NO = (
    r"no|non|não|nein|nope|nah|false|incorrect|negative|not true|not correct|(?:certainly|definitely|absolutely"
    r"|of course|i (?:think|believe)) not|no way|not at all|by no means|not the case|i do(?: not|n['’]t) (?:think"
    r"|believe) so|(?:they|it|he|she|both|that) (?:are|is|were|was|do|does|did|have|has) not(?=\W*\Z)|不是的?|否|不"
)
_SUBJECT = r"(?:they|it|he|she|the|this|these|those|there|both|neither|only|as|because|since|we|all|each)\b"
_LEAD = (
    r"(?:so|therefore|thus|hence|well|in short|overall|in conclusion|(?:based on|according to|from) [^.,;:\n]{1,80}"
    r"|i (?:think|believe|would say)(?: that)?|i['’]d (?:say|go with)|\(?[a-e]\)|(?:it|that|this|the (?:statement"
    r"|claim))(?: is|['’]s)(?: an?)?|(?:happy|glad) to help[.!]|(?:great|good) question[.!])"
)
_FIRST = re.compile(
    rf"[^\w≠¬~!]*(?:(?:final )?answer\W*\n\W*)?(?:{_LEAD},? +){{0,3}}(?:(?P<yes>{_YES})|(?P<no>{_NO}))(?:\W*\Z"
    rf"|[\"'”)*]*(?:\.(?! ?\d)|[,;:!\n?，。；]| ?[–—(]| - )| (?={_SUBJECT}))",
    re.IGNORECASE,
)
_STATED = re.compile(
    r"(?:\banswer(?: to [^.,;:\n]{1,60}?)?(?: is| would be| must be|:)+:?|\b(?:so|therefore|thus|hence"
    r"|conclusion|i['’]d (?:say|go with))[,:]?|(?<=[.!])"
    r"|\bis (?=true|correct|false|incorrect|not))[ \"'“(*]*(?:(?P<yes>yes|true|correct)|(?P<no>no|false|incorrect"
    r"|not true|not correct))(?=[\"'”)*]*(?:[.!,;:–—\n(]|\s*\Z| - | (?:as|because|since)\b))",
    re.IGNORECASE,
)
_NO_DOUBT = re.compile(
    r"\W*(?:there(?: is|['’]s) )?(?:no|without(?: a| any)?) (?:doubt|question)\b(?: about it)?[.,!;:\s]", re.IGNORECASE
)
_NO_OTHER = re.compile(r"\W*no,? (?:problem|wonder|idea)\b", re.IGNORECASE)
_AT_ONCE = re.compile(
    r"\W*(?:and no|or|and yes|but|however|although|though|except|unless|if|in (?:part|some)|only (?:in part|partly)"
    r"|partly|partially|sort of|kind of|mostly|technically)\b|\?",
    re.IGNORECASE,
)
_LATER = re.compile(
    r"\b(?:maybe|perhaps|possibly|probably|depends|not sure|unsure|uncertain|unclear|actually|wait|on the other hand"
    r"|sometimes|on second thought|i was wrong|correction)\b|\?",
    re.IGNORECASE,
)
_UNKNOWN = re.compile(
    r"(?:(?:\bnot|n['’]t|\bcannot) (?:\w+ )?(?:know|find|found|determine\w*|verif\w+|confirm\w*|say|tell|available"
    r"|clear|certain|sure|enough)|\b(?:information|evidence|data|sources?) (?:is|are|was|were) (?:lacking|missing"
    r"|insufficient)|\bno (?:\w+ )?(?:information|evidence|data|sources?|mention|idea)|\bunable to|\binsufficient)\b",
    re.IGNORECASE,
)
"""Text after "no" that shows that it answers whether something was found."""
_CONCLUSION = re.compile(
    r"\W*(?:(?:so|therefore|thus|hence)\b,? )?(?:the |my )?(?:(?:correct|final) )*answer(?: is| must be|:)"
    r"[ \"'“(*:]*(?P<said>yes|no)"
    rf"(?=\W*\Z|[\"'”)*]*[.,;:!\n(–—-]| - | (?:as|because|since|given)\b| {_SUBJECT})(?P<rest>[^?]*)",
    re.IGNORECASE,
)
"""A last sentence that states the answer; it overrides the text before it."""
_OPPOSITE = {
    "yes": re.compile(r"\b(?:no(?=\W*\Z|[.,;!](?! \d))|nope|false|incorrect|not true)\b", re.IGNORECASE),
    "no": re.compile(r"\b(?:yes|yeah|(?<!not )true)\b", re.IGNORECASE),
}
_DENIES = re.compile(r"\b(?:not|neither|nor|never|different|differ)\b|n['’]t\b", re.IGNORECASE)
_REASON = re.compile(r"\b(?:since|because|as|given|not only)\b", re.IGNORECASE)
_UNLESS = re.compile(
    r"\b(?:if|unless|maybe|perhaps|possibly|probably|depends|assuming|whether|would|could|might)\b", re.IGNORECASE
)
_SENTENCES = re.compile(r"(?<=[.!?;])\s|\n")


def yes_or_no(text: str) -> str | None:
    """Return "yes" or "no", whichever the answer states; None if it is unclear."""
    if _NO_DOUBT.match(text + " "):
        return None if _DENIES.search(text) else "yes"
    concluded = _CONCLUSION.fullmatch(_SENTENCES.split(text.strip())[-1])
    if concluded and not _UNLESS.search(concluded["rest"]) and not _LATER.search(concluded["rest"]):
        return None if _OPPOSITE[concluded["said"].lower()].search(concluded["rest"]) else concluded["said"].lower()
    if first := _FIRST.match(text):
        said = "yes" if first["yes"] else "no"
        rest = text[first.end() :]
        taken_back = (
            _AT_ONCE.match(rest) or _LATER.search(rest) or _OPPOSITE[said].search(rest) or first[0].endswith("?")
        )
        denied = said == "yes" and _DENIES.search(_REASON.split(_SENTENCES.split(rest)[0])[0])
        unknown = _UNKNOWN.search(rest)
        return None if taken_back or denied or unknown or _NO_OTHER.match(text) else said
    stated = {"yes" if match["yes"] else "no" for match in _STATED.finditer(text)}
    sentence = next((one for one in reversed(_SENTENCES.split(text)) if _STATED.search(one)), "")
    before = sentence[: match.start()] if (match := _STATED.search(sentence)) else ""
    return stated.pop() if len(stated) == 1 and not _UNLESS.search(before) and not _LATER.search(text) else None
