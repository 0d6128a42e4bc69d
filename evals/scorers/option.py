"""Scorer of multiple choice: which option an answer chooses, by its letter or by its text. GPQA, MedQA.

Both the letter and the text of an option count as a mention of it. A mention is a choice only if nothing else is said
of the option: every word beside it is known to state a choice ("so it is C", "C is correct") or begins a reason ("C,
because ..."). "Stop C" and "C causes ..." leave it open; "not C" and "C is wrong" reject it. A reply must choose one
option. A letter next to the text of another option is a contradiction. There is no fallback: a refusal chooses nothing,
and an unclear reply is left to a judge that *extracts* the choice without seeing which option is right.
"""

import re
import string
import unicodedata
from collections.abc import Mapping, Sequence

from agentflow.evals.scorers.canonical import same
from agentflow.evals.scorers.final import final_answer, refuses
from agentflow.evals.scorers.free_text import normalise
from agentflow.evals.scorers.latex import plain
from agentflow.evals.scorers.score import Score, decided, undecided

_FIRST, _LETTERS = 0xE000, 0x100
_MENTIONS = r"[\ue000-\ue0ff]"
"""Private-use characters that represent the options, in order; a mention by letter has a code that is 0x100 higher."""
_RESERVED = re.compile(r"[\ue000-\ue1ff]")
"""Characters of both ranges, which an answer may contain itself: they would be read as mentions of options."""
_LABEL = re.compile(r"(?<![A-Za-z0-9_'’/.])(?<![A-Za-z0-9]-)([\[(]?)([A-Z])(?![A-Za-z0-9_'’/])(?!-\w)(?!\.\w)([)\]]?)")
_BESIDE = re.compile(
    r"(?P<letter>[\ue100-\ue1ff])[)\]]{0,2}[\s.:,;(\[=–—-]{0,4}(?:(?:the|an?) )?(?P<text>[\ue000-\ue0ff])"
    r"|(?P<before>[\ue000-\ue0ff]),? ?[(\[](?:(?:option|choice|answer) )?(?P<after>[\ue100-\ue1ff])[)\]]",
    re.IGNORECASE,
)
_ITEM = re.compile(r"\W{0,9}[\ue100-\ue1ff][)\].:]{0,3} ?[)\].:,–—-]{1,3} ?[\ue000-\ue0ff]")
_SMALL_LABEL = re.compile(
    r"\b((?:answer|option|choice|letter)(?: is)?:? |^)([\[(]?)([a-z])([)\].:]|(?=\.?$| (?:because|since)\b))",
    re.IGNORECASE,
)
_WORD_AFTER = re.compile(
    r" (?!(?:is|was|and|or|because|since|as|but|not|would|seems|looks|it|for|with|due|over|by)\b)\w"
)
"""Text after "A" or "I" that shows that it is a word, not the letter of an option."""
_ARTICLE = re.compile(
    r"(?<![\w(\[])A(?= (?!(?:is|was|and|or|because|since|as|but|not|would|seems|looks|for|with|due|over)\b)[a-z])"
)
_PUNCTUATED = re.compile(r"\W{0,9}[A-Z](?: ?[.):,\]]{1,3} ?| [–—-]{1,2} )(?P<rest>\S.*)", re.DOTALL)
_SENTENCES = re.compile(r"(?<=[.!?;])\s|\n|(?<=。)")
_CLAUSES = re.compile(
    r"(?<=[.!?;])(?<![\ue100-\ue1ff]\.)(?<![\ue100-\ue1ff]\)\.)\s|\n|(?<=。)"
    r"|(?<![Aa]ll)(?<!thing)(?<![Aa]ny)(?<!ns)(?<!ers),? (?=(?:but|however)\b)"
    r"|, (?=(?:so|therefore|thus|hence)\b)|[，、]"
)
_SAME = re.compile(
    rf"({_MENTIONS})(?:[\s.:,;)(\[\]=–—-]|\b(?:is|which is|i\.e\.|the|an?|namely|option|choice)\b){{0,9}}\1"
)
_REASON = (
    r"(?:(?:and )?not|definitely|certainly|clearly|surely|obviously|without (?:a |any )?doubt|no doubt|rather than"
    r"|instead of|over|because|since|as|due to|given|based on|while|whereas)\b.*"
)
_LAYOUT = r"\s*_\"'“”.,:;()\[\]>#✅✓✔☑🎉👉😀→⇒=–—•·。！：\-"
_CHOOSING = frozenset(
    """
    answer answers choose choosing chose pick picking select selecting opt vote go going conclude respond say think
    believe is be am it's that's correct right best likely probable appropriate accurate consistent diagnosis must
    should clearly definitely certainly surely obviously est ist es é è richtig respuesta réponse antwort risposta
    resposta ответ 选 選 选择 答案 答案是 正确答案 正确答案是 正解は
    """.split()
)
_CONNECTING = frozenset(
    """
    so therefore thus hence and but then now yes overall finally final in
    conclusion by elimination exclusion only ans option choice letter the a an my our your it its that this i i'd i'll
    i'm we we'd would will exact selected with for have has to most remaining possibility here fairly quite confident
    sure certain next on reflection la el le die der o bonne correcta correcte giusta correta letra lettre richtige
    правильный
    """.split()
)
"""Words that say nothing of an option beside them but that it is the choice. Any other leaves it open."""
_WORD = re.compile(rf"[^\W\d_]+(?:['’][^\W\d_]+)?|[^{_LAYOUT}]")
_SEGMENT = re.compile(r"([→⇒]|[=-]>|[,:;] |\b(?:so|therefore|thus|hence)\b)")
_POINTS = re.compile(
    r"\b(?:(?:consistent|compatible) with|points? to|suggests?|suggestive of|indicates?|leaves|corresponds? to|means"
    r"|(?:must|has to|ought to) be)(?: the| an?| option)?[\s(\[]*\Z",
    re.IGNORECASE,
)
"""Text before an option that makes it the conclusion, whatever the sentence begins with."""
_AFTER = re.compile(
    rf"[{_LAYOUT}!]*+(?:(?:です|である)[{_LAYOUT}!]*+)?\Z|[\s)\],.:;(–—-]{{0,4}}{_REASON}", re.IGNORECASE | re.DOTALL
)
_APPOSITION = re.compile(r"[)\]]{0,2}(?: here)? ?[,.:;(–—-].*", re.DOTALL)
_LIST = rf"[\[(]?{_MENTIONS}(?:[)\]]{{0,2}}(?:,| or| and| nor){{1,2}} ?[\[(]?{_MENTIONS}){{0,9}}[)\]]{{0,2}}"
_PICKED = re.compile(
    r"\W{0,3}(?:(?:although|though|while|unlike|compared (?:to|with)|as|since|because|given|in|for)\b[^,]{0,200}, )?"
    rf"(?:option |choice |answer |the |an? )?[(\[]?({_MENTIONS})[)\]]{{0,2}},? (?:is|seems|looks|would be|remains"
    r"|must be|has to be|should be) (?:(?:clearly|definitely|also|therefore|far|much|the|my|by far|certainly"
    r"|still) ){0,3}(?:right|correct|best|true|one(?! of)|answer|pick|choice|preferred|treatment of choice|what (?:i"
    r"|we)(?:['’]d| would) (?:give|pick|choose|put|say|select|answer|prescribe)|(?:most|more) (?:likely|probable"
    r"|appropriate|consistent|accurate|plausible|compatible|suitable|fitting))\b"
    r"(?!.*\b(?:if|unless|except|only|at first)\b|.*\?)"
    rf"|\W{{0,3}}only (?:option |choice )?[(\[]?({_MENTIONS})[)\]]{{0,2}} (?:is|remains|fits|explains|can|matches"
    rf"|satisfies)\b",
    re.IGNORECASE,
)
"""A clause that states which option is right, whatever it says of others after that."""
_DENIED = (
    re.compile(
        r"\b(?:least|worst|incorrect|wrong|false|trap|distractor|decoy)\b[^.;:\ue000-\ue1ff]{0,40}(?: is|:) (?:the )?"
        rf"(?:option )?{_LIST}",
        re.IGNORECASE,
    ),
    re.compile(rf"\b(?:unlike|compared (?:to|with)) (?:option )?[(\[]?{_MENTIONS}[)\]]?", re.IGNORECASE),
    re.compile(rf"{_LIST}:? ?[✗✘❌❎✖]"),
    re.compile(rf"\b(?:avoid|never|don['’]t (?:choose|pick|select)) (?:option )?{_LIST}", re.IGNORECASE),
    re.compile(
        r"(?:\b(?:not|nor|(?:rather |other )?than|instead of|exclud(?:e|es|ed|ing)|eliminat(?:e|es|ed|ing)|rul(?:e|es"
        r"|ed|ing) out|reject(?:s|ed|ing)?|except|neither|over|against)|n['’]t)(?: (?:the|an?|option|choice|be|is|out"
        r"|by|answer)\b){0,3}"
        rf" {_LIST}",
        re.IGNORECASE,
    ),
    re.compile(
        rf"{_LIST},?(?: (?:is|are|was|were|seems?|looks?|would|can|does|do|be|both|all|clearly|also|therefore"
        rf"|too)){{0,4}}"
        rf"(?: (?:wrong|incorrect|not(?! (?:(?:the|an?|option|choice|answer) ){{0,2}}[(\[]?{_MENTIONS})|false|unlikely"
        r"|excluded|ruled out|eliminated|avoided|inappropriate|cannot|contraindicated|less likely|distractors?"
        r"|implausible|(?:(?:the|an?) )?(?:trap|decoy|distractor|worst|least|tempting|second best)|irrelevant|out"
        r"|falsch|falsa|falso|fausse|faux)\b|n['’]t\b| ?cannot\b)",
        re.IGNORECASE,
    ),
)
_DOUBTS = re.compile(
    r"\b(?:or|either|both|maybe|perhaps|possibly|might|may be|could|unsure|not sure|uncertain|guess|tie|equally"
    r"|possible|if|unless|wait|between|also (?:correct|right))\b|\?",
    re.IGNORECASE,
)
_AS_WELL = re.compile(r"\b(?:possible|also|too(?=\W*$)|as well|could be|might be|may be|so is)\b", re.IGNORECASE)
_NEGATIVE = re.compile(r"\b(?:not|never|neither|wrong|incorrect|unlikely|false|no)\b|n['’]t\b", re.IGNORECASE)
_BUT = re.compile(r"\W*(?:but|however)\b", re.IGNORECASE)
_CONCLUDES = re.compile(r"\b(?:final|so|therefore|thus|hence|in conclusion|overall|answer)\b", re.IGNORECASE)
_ANSWER = re.compile(
    r"\b(?:answer|correct|right|best|final|most (?:appropriate|likely|accurate|suitable|probable))\b"
    rf"[^.;\n{_MENTIONS[1:-1]}]{{0,60}}?(?:\bis|\bbe|:|=)[ :]*(?:(?:the|an?|option|choice|letter|clearly|therefore"
    rf"|thus) ){{0,3}}[(\[]?({_MENTIONS})(?![)\]]{{0,2}}(?:,| or| and|,? or| ?/)+ ?[(\[]?{_MENTIONS})",
    re.IGNORECASE,
)
_BARE = re.compile(rf"[{_LAYOUT}]{{0,9}}{_MENTIONS}[{_LAYOUT}!]{{0,9}}")
_RETRACTS = re.compile(
    r"\b(?:actually|wait|correction|correct that|on second thought|no,|sorry|i meant?\b)", re.IGNORECASE
)
_HEAD_ENDS = re.compile(
    r"[(;:.–—-]|,(?! ?(?:and |or )?[(\[]?[\ue000-\ue1ff])|\b(?:because|since|as|which|while|whereas)\b"
)
_SHARED = "a letter that is the text of another option"
_LONGEST = 4_000
"""Characters that are read, counted from the end."""


def option(answer: str, options: Mapping[str, str], gold: str) -> Score:
    """Score whether `answer` chooses the option with the letter `gold`; `options` maps capital letters to texts."""
    text = _RESERVED.sub(" ", plain(final_answer(answer)).replace("**", "")[-_LONGEST:])
    text = "\n".join(" ".join(line.split()) for line in text.splitlines() if line.strip()).strip('*_`" ')
    if not text:
        return decided(False, "no answer")
    by_text = {one for one, content in options.items() if same(text, content) or _labels(text, one, content)}
    shared = {one for one in options for key, content in options.items() if key != one and same(content, one)}
    alone = text.strip("()[]{}.:,' ").upper()
    if alone in shared:
        return undecided(_SHARED)
    if len(alone) == 1 and alone in string.ascii_uppercase and not by_text - {alone}:
        return decided(alone == gold, "option letter")
    if len(by_text) == 1 and not _names_another(text, options):
        return decided(by_text == {gold}, "option text")
    if not by_text and refuses(text, options.values()):
        return decided(False, "no answer")
    marked = _marked(_written(text), options)
    beside = [(one["letter"] or one["after"], one["text"] or one["before"]) for one in _BESIDE.finditer(marked)]
    if _names_another(text, options) or any(ord(letter) - _LETTERS != ord(content) for letter, content in beside):
        return undecided("a letter and the text of another option")
    chosen, denied = _chosen(marked)
    letters = list(options)
    rejected = {letters[ord(one) - _FIRST] for one in denied}
    letter = letters[ord(chosen) - _FIRST] if chosen else ""
    if shared & {letter, *rejected}:
        return undecided(_SHARED)
    if not letter:
        return decided(False, "denied") if gold in rejected else undecided("no single option")
    return decided(letter == gold, "option")


def _labels(text: str, letter: str, content: str) -> bool:
    """Return whether `text` is the letter of an option and its text, or a part of it: "B: Kidney"."""
    found = _PUNCTUATED.match(text)
    if not found or text.lstrip("([*_ ")[:1] != letter:
        return False
    return f" {normalise(found['rest'])} " in f" {normalise(content)} "


def _names_another(text: str, options: Mapping[str, str]) -> bool:
    """Return whether `text` begins with the letter of an option, followed by text that is not that option's.

    A sentence about the option is allowed after the letter.
    """
    found = _PUNCTUATED.match(text)
    letter = text.lstrip("([*_ ")[:1]
    if not found or letter not in options or re.match(_REASON, found["rest"], re.IGNORECASE):
        return False
    said, own = normalise(_SENTENCES.split(found["rest"])[0]), normalise(options[letter])
    if len(said) > 2 and f" {said} " in f" {own} ":
        return any(f" {said} " == f" {normalise(other)} " for key, other in options.items() if key != letter)
    others = (normalise(content) for key, content in options.items() if key != letter)
    if any(said.startswith(other) for other in others if other) and not said.startswith(own):
        return True
    return not said.startswith(own) and len(said.split()) <= 3 and said[:1] not in _MENTIONS


def _written(text: str) -> str:
    """Return `text` with x², x_2 and x^{2} as x2."""
    return re.sub(r"[\^{}]|_(?=\w)", "", unicodedata.normalize("NFKC", plain(text)))


def _marked(text: str, options: Mapping[str, str]) -> str:
    """Return `text` with each mention of an option, by letter or by text, replaced by its private-use character."""
    places = {letter: chr(_FIRST + place) for place, letter in enumerate(options)}
    text = _ARTICLE.sub("a", text)
    for letter, content in sorted(options.items(), key=lambda item: -len(item[1])):
        words = re.findall(r"\w+|[^\w\s]", _written(content).strip(" ."))
        if words and len(content) < 400 and not (len(words) == 1 and len(words[0]) == 1):
            pattern = r"\s*".join(map(re.escape, words))
            text = re.sub(rf"(?<![\w-]){pattern}(?![\w-])", places[letter], text, flags=re.IGNORECASE)
    labels = {letter: chr(ord(place) + _LETTERS) for letter, place in places.items()}

    def label(match: re.Match[str]) -> str:
        letter, bare = match[2], not match[1] and not match[3]
        word = bare and letter in "AI" and _WORD_AFTER.match(match.string, match.end())
        return match[0] if letter not in labels or word else f"{match[1]}{labels[letter]}{match[3]}"

    def small(match: re.Match[str]) -> str:
        return f"{match[1]}{match[2]}{labels.get(match[3].upper(), match[3])}{match[4]}"

    return _LABEL.sub(label, _SMALL_LABEL.sub(small, text))


def _chosen(marked: str) -> tuple[str | None, set[str]]:
    """Return the one option that the clauses of a marked text choose, or None, and the options that they reject.

    "The answer is C" and an option alone on the first or last line take precedence over other choices ("so it is C").
    """
    clauses = [(_merged(clause), _ITEM.match(clause)) for clause in _CLAUSES.split(marked)]
    answers: list[tuple[str, bool]] = []
    said: list[tuple[str, bool]] = []
    rejected: set[str] = set()
    unclear = False
    for place, (clause, item) in enumerate(clauses):
        if picked := _PICKED.match(clause):
            answers.append((picked[1] or picked[2], False))
            continue
        denied = {one for pattern in _DENIED for match in pattern.finditer(clause) for one in _mentions(match[0])}
        rejected |= denied
        clause = _without(clause, denied)
        here = _mentions(clause) - denied
        if not here and _BUT.match(clause) and _NEGATIVE.search(clause):
            return None, set()
        if not here:
            continue
        if answers and _RETRACTS.search(clause) and here != {answers[-1][0]}:
            return None, set()
        concludes, doubted = bool(_CONCLUDES.search(clause)), _DOUBTS.search(clause)
        answer = _ANSWER.search(clause)
        if answer and answer[1] in here and not doubted and _is_own(clause[: answer.start()]):
            answers.append((answer[1], concludes))
            continue
        alone = (item or _stands(clause)) and not _RETRACTS.search(clause)
        if place in (0, len(clauses) - 1) and _BARE.fullmatch(clause) and not doubted:
            answers.append((here.pop(), False))
        elif _AS_WELL.search(clause):
            unclear = True
            if answers:
                return None, set()
        elif alone:
            if len(here) > 1:
                here = _mentions(_HEAD_ENDS.split(clause, maxsplit=1)[0]) or here
            if len(here) > 1 or doubted:
                unclear = True
            else:
                said.append((here.pop(), concludes))
    found = _last(answers) if answers else None if unclear else _last(said)
    return (None, set()) if found in rejected or (unclear and not found) else (found, rejected)


def _stands(clause: str) -> bool:
    """Return whether a clause says nothing of its first option but that it is the choice, and perhaps why."""
    mentions = list(re.finditer(_MENTIONS, clause))
    repeated = len({one[0] for one in mentions}) == 1
    return any(_alone(clause[: one.start()], clause[one.end() :]) for one in mentions[: None if repeated else 1])


def _alone(before: str, after: str) -> bool:
    *others, tail = _SEGMENT.split(before)
    words = [word.casefold().replace("’", "'") for word in _WORD.findall(tail)]
    if not all(word in _CHOOSING or word in _CONNECTING for word in words):
        return bool(_POINTS.search(before) and _AFTER.match(after))
    free = any(word.casefold() not in _CHOOSING | _CONNECTING for other in others for word in _WORD.findall(other))
    chooses = any(word in _CHOOSING for word in words)
    if free and (_NEGATIVE.search(before) or not (chooses or others[-1][:1] not in ",:;")):
        return False
    said = [word.casefold() for word in _WORD.findall(after)]
    known = all(word in _CHOOSING or word in _CONNECTING for word in said)
    return known or bool(_AFTER.match(after) or (chooses and _APPOSITION.match(after) and not _NEGATIVE.search(after)))


def _is_own(before: str) -> bool:
    """Return whether "the answer is", after `before`, is about the reply's own answer: not "the naive answer is"."""
    before = _SEGMENT.split(before)[-1]
    words = _WORD.findall(before)
    return not _NEGATIVE.search(before) and all(word.casefold() in _CHOOSING | _CONNECTING for word in words)


def _last(chosen: Sequence[tuple[str, bool]]) -> str | None:
    """Return the option that all of `chosen` agree on, else None.

    If they differ, return the last one if it is a conclusion and no other option was chosen in a conclusion.
    """
    options = {one for one, _ in chosen}
    if len(options) > 1 and chosen[-1][1] and not any(final for one, final in chosen if one != chosen[-1][0]):
        return chosen[-1][0]
    return options.pop() if len(options) == 1 else None


def _merged(clause: str) -> str:
    """Return a clause with one character for mentions by letter and by text, and with repeated mentions merged."""
    text = clause.translate({code + _LETTERS: code for code in range(_FIRST, _FIRST + 26)})
    for _ in range(3):
        text = _SAME.sub(r"\1", text)
    return text


def _mentions(text: str) -> set[str]:
    return set(re.findall(_MENTIONS, text))


def _without(sentence: str, denied: Sequence[str] | set[str]) -> str:
    """Return a sentence without the parts that reject the options in `denied`."""
    for pattern in _DENIED:
        sentence = pattern.sub(lambda match: "" if _mentions(match[0]) <= set(denied) else match[0], sentence)
    return sentence.rstrip(" ,").removesuffix(" and").removesuffix(" but")
