"""Scorer of numbers, compared exactly: AIME, AMC.

A number may be written in many ways: 1,234, \\frac{3}{4}, 2 1/2, 2.5e3, 25 million, minus seven, 2^{10}. The statement
of the answer must have a known shape: the number alone, "the answer is 42", "x = 42", "there are 42 ways, since ...",
"..., so 42 in all". Any other shape is undecided, because taking the first or the last number of a text would accept
and reject at random. 50 % equals both 50 and one half. A number that may be the gold answer rounded is undecided.
"""

import re
from fractions import Fraction

from agentflow.evals.scorers.arithmetic import evaluate
from agentflow.evals.scorers.final import final_answer, refuses
from agentflow.evals.scorers.latex import plain
from agentflow.evals.scorers.numerals import IN_WORDS, SCALES, from_words, marked, near
from agentflow.evals.scorers.score import Score, decided, undecided

RULE = "number"

_SENTENCES = re.compile(r"(?<=[.!?;])\s(?![=+*/-])|\n|(?<=。)")
_EXPLICIT = re.compile(
    r"\b(?:answer|final (?:result|value)|(?:requested|required|desired|sought) [a-z]{1,20})\b[^#=.;]{0,60}?"
    r"(?:\bis\b|['’]s\b|\bequals\b|\bbe\b|\bof\b|:|=|\bas\b| -(?= ))[: ]*(?=[^#=]{0,20}#)"
)
_ANSWERS = frozenset(
    "the my our a an final correct right exact only numerical numeric required requested desired overall integer unique"
    " simplified resulting best whose and so this true short is".split()
)
"""Words that may stand before "answer"; "the previous answer" and "the naive answer" are others."""
_CONCLUDES = re.compile(
    r"(?:\b(?:so|therefore|thus|hence|finally|altogether|in total|in all|overall|consequently|giving|yielding|making"
    r"|leaving|meaning|implies|implying|gives?|yields?|also|donc|daher)\b|\bwhich (?:gives|is|makes|equals|leaves"
    r"|yields|means)\b|\bfor a total of\b|\b(?:we|you|i) (?:get|obtain|find|have|conclude|see)\b(?: that)?|[=-]>|[→⇒⟹]"
    r"|\\implies|, (?=(?:the|it|this|there|its|his|her|their)\b))[ ,:]*"
)
_CLAUSES = re.compile(r", |\bthen\b|\bbut\b|\bactually\b")
_TOTAL = re.compile(r"\b(?:total|in all|altogether|overall|finally)\b")
_CONNECTIVE = (
    r"(?:is|are|was|were|be|(?:it|that|this|there|she|he)['’](?:s|re)|equals?|equal to|gives?|gets?|got|yields?"
    r"|obtains?|finds?|found|has|have|had|makes?|becomes?|to|as|only|exactly|precisely|just|(?<![a-z] )answer|(?:final"
    r"|my|our|correct) answer|result|total|value|number|sum|takes?(?: [a-z]+)?|macht|costs?|leaves?|contains?|needs?"
    r"|requires?|produces?|earn(?:s|ed)?|pays?|paid|spends?|spent|sold|sells?|scored?|won|weighs?|travel(?:s|ed)?|us"
    r"|after|in|at|by|for|all|saves?|saved|took|lasts?|lasted|gave|ate|bought|lost|kept|made|drove|ran|walked|owes?"
    r"|owed|cost|(?:ends?|ended|left) (?:up )?with|(?:total|value|minimum|maximum|answer|result|area|length|cost|price"
    r"|distance|speed|average|mean|probability|sum) of|altogether|therefore|thus|hence|so|then|indeed|simply|says"
    r"|counted|counts?|there|est|ist|es|sont|sind|son|vaut|lautet|beträgt|ergibt|ergebnis|réponse|respuesta|antwort"
    r"|[a-z]{3,12} of|[a-z]{3,12}s|(?:will|can|must) [a-z]{2,12}|worth"
    r"|(?:arranged|done|chosen|seated|painted|colou?red|made|filled|selected) in)"
)
_VARIABLE = r"[a-z](?:'|\([a-z#, ]{0,20}\))?"
_TAIL = (
    r"(?:,? ?\((?!times|plus|minus|divided|multiplied|mod|and\b|or\b|not (?!#)).*|,? (?:attained|achieved|reached"
    r"|obtained|found|when|where|at|for|with|because|since|as|given|using|which|by(?! #)|from|assuming|considering"
    r"|counting|including|after|rather than|instead of|in the|not counting|no more|no less|in total|in all|altogether"
    r"|overall|that is|namely|directed|being|occurring|taken|so that|such that|via|modulo the|thanks)\b.*|,? i\.e\..*"
    r"|,? (?:and )?not #.*| ?[-—–:] (?![#(]).*)"
)
_UNIT = r"(?:[a-hj-su-wµμω°]|[kmcµμn]?[a-zω]|mol|rad|ohm)(?: ?\^#)?(?:/[a-z]{1,3}(?: ?\^#)?)?"
_PROSE = r"[^#=^*/+<>|\\]{0,400}"
_STATED = re.compile(
    rf"(?P<before>(?:(?:the|its|our|this|their) [^=^*/+<>|\\]{{0,400}}\b(?:is|equals)|{_PROSE}\b{_CONNECTIVE}"
    rf"|(?:{_PROSE}[ (])?{_VARIABLE} ?=|{_PROSE}[:=]|{_PROSE}[是为為于有共得]"
    rf"|[\s.,;:!'()*_•·…✓✔✅☑🎉→⇒∴-]{{0,9}})[ :]{{0,4}})#(?P<unit>(?: ?%| ?°[cf]?| [msghl]\b| [mk]?m/[sh]\b"
    rf"| ?(?:cm|mm|km|kg|mg|ms|min|hrs?|mph|ft|lbs?|ml|usd|eur)\b|(?: {_UNIT}){{1,3}}(?![\w^])"
    rf"|(?<=#){_UNIT}\^#(?!\w))?(?:[ -][a-z][a-z'’-]+(?:/[a-z]+)?){{0,9}}?)(?P<tail>{_TAIL})?[ .。}}✓✔✅☑🎉]*"
)
_EQUATION = re.compile(
    r"(?P<left>(?:[^=,]|,(?=[^()=]{0,40}\))){1,200}(?:=[^=,]{1,200}){0,6}?)= ?#"
    r"(?P<unit>(?: ?%|°)?(?: [a-z]{3,}){0,4})(?:,? (?:since|because|as|where|when|for) .*)?[ .。]*"
)
_MIRRORED = re.compile(r"# ?= ?[a-z](?: ?[-+*] ?[a-z]){0,4}[ .]*")
_FUNCTIONS = frozenset(
    "sqrt sin cos tan log gcd lcm max min det mod binom cdot sum ln pi"
    " theta alpha beta gamma delta lambda omega phi angle triangle quad text".split()
)
_HEDGES = re.compile(
    r"\b(?:not|never|neither|nor|no|or|wrong|incorrect|except|unlike|rather|instead|maybe|perhaps|possibly|probably"
    r"|(?:un)?likely|either|if|unless|suppose|false|ignore|gold|judge|guess|estimated?|bound|range|cannot|would|could"
    r"|might|may|should|wait|mistake|but|however|actually|try|trying|timed|failed|failure|exception|crashed|attempts?"
    r"|percentile|below|moins|menos|(?:sub|under|beneath)[ -]?zero|binary|octal|hexadecimal)\b"
    r"|\b(?:error|between|about|approximately|approx\.?|around|roughly|nearly|almost|than|at least"
    r"|at most|over|under|above|beyond|mod|modulo|log|ln|root|cubed?|factorial|plus|minus|times|by|half|twice"
    r"|double|triple|until|before|exceeds?|up to|close to|and|factor|divisor|digits?|percent|step|case|problem|question"
    r"|example|option|choice|page|line|chapter|version|room|code|steps|cases|problems|questions|examples|options|pages"
    r"|lines|chapters|rooms|codes|errors|precedes|exceeds|divides|lacks|misses|multiples|less|(?:square|root|cube"
    r"|logarithm|multiple|power|factor|divisor|percent|product|quotient|remainder|half|third|quarter|double|reciprocal"
    r"|inverse|negative|opposite|square root|out|instead|because|digits?|number) of) (?=#)|(?<=#) ?(?:or|and|to|squared"
    r"|cubed|factorial|plus|minus|times|(?:more|less|fewer)(?= than|\W*$)|over|before|until|out|off|short|away|too"
    r"|choose|mod|modulo|percentile|th|st|nd|rd)\b|n['’]t\b|[~≈±≠≤≥?!]|:=|#-?ish\b"
)
_REPORT = (
    r"\b(?:budget|time ?limit|context (?:limit|window)|timeout|timed out|ran out|iterations?|warnings?"
    r"|status|exit(?:s|ed)?|http|traceback|exception|bytes|[kmg]b|retr(?:y|ies|ied)|solver|there were # errors"
    r"|(?:number|limit) of (?:turns|steps)|(?:i|we) (?:\w+ )?(?:used|checked|tried|made|read|searched|tested|examined)"
    r"|(?:search|tool|query|code|program|script) (?:\w+ )?(?:#|\w+ #) [a-z]+)\b"
)
_PREMISE = (
    r"\b(?:contexts?|tokens?|errors?|attempts?|memory|stopped|limit(?:s|ed)?|turns?|steps?|tr(?:y|ies|ied)|deadline"
    r"|lines|search(?:es|ed)?|quer(?:y|ies)|pages|hits|documents?|articles?|servers?|models?|requests?|responses?|seed"
    r"|inputs?|given|start(?:s|ed)? with|assum\w+|suppos\w+|let|guess(?:es|ed)?|previous\w*|naive|initial(?:ly)?"
    r"|earlier|candidates?|checked|tested|examined|confidence|versions?|bounds?|parts|the (?:problem|question|puzzle"
    r"|exercise)|hypothe\w+|rejected|loss|port|words|characters|cases|bce?|base)\b|\b(?:i|my)\b(?! (?:get|got|obtain"
    r"|find|found|have|calculate|compute|conclude|believe|think|say|arrive|end up|count|answer|final)\w*\b)|\b(?:tool"
    r"|code|program|script|process|system)\b(?!: ?#|.{0,20}\b(?:outputs?|prints?|printed|returns?|returned|gives?|gave"
    r"|says?|computes?|computed|found|confirms?)\b[^a-z]*#\W*$)"
)
_ABOUT_THE_WORK = re.compile(f"{_REPORT}|{_PREMISE}")
"""Words of a report on the work ("after 104 steps") or of a premise ("let n be 104"), not of an answer."""
_AFTER = re.compile(
    r"#[ -](?:[a-z]+ed\b(?<!needed)(?<!required)(?<!used)(?= (?:by|to|from|in|with|twice|again|the)\b|\W*$)"
    r"|(?:is|was|are|were)\b(?! (?:the|our|my|correct|right|indeed)\b)|too\b|(?:fails?|works?|does|do|has|have|can)\b"
    r"|(?!is )[a-z]+s (?:the|a|an|all|every|each)\b)"
)
"""Text after a number that is no unit: "doubled", "is too big", "fails the test"."""
_LABEL = re.compile(r"\bnos?\. #|^\[#\]")
"""A number that names something: "No. 5", the reference "[5]"."""
_TAKES_BACK = re.compile(
    r"\b(?:or|maybe|perhaps|possibly|if|unless|but|however|actually|wait|wrong|incorrect|mistaken?|unsure|alternatively"
    r"|not (?:sure|certain|quite)|no,|hmm|instead the|correction|should be|recheck|on second thought|check again)\b"
    r"|, # (?:when|for|if)\b"
)
_RETRACTS = re.compile(
    r"\b(?:but|however|actually|wait|wrong|incorrect|mistaken?|unsure|alternatively|not (?:sure|certain|quite|right)"
    r"|hmm|correction|should be|recheck|on second thought|check again)\b"
)
_DENIED = re.compile(
    r"(?:[^#=]*\b(?:is|are|was|be|does|do)?(?: ?n['’]t| not|\bnot|cannot|can['’]t)(?: (?:be|equal|equal to|possibly))?"
    r"|[^#=]*(?:≠|!=)) ?#(?:,? (?:because|since|as)\b[^#]*)?[ .;]*"
)
_CHANGED = re.compile(
    r"(?:.*\b(?:twice|half(?: of)?|double|triple|(?:one|two|three) (?:more|less) than)|.*\\?\b(?:log|ln)) ?\(?#\)?[ .]*"
    r"|# ?\*? ?(?:\\pi|π|pi|i)[ .]*"
)
"""Texts whose value is not the number in them: "twice #", "log(#)", "# pi"."""
_AMBIGUOUS = re.compile(r"#[!#]|# ?- ?#")
_ASIDE = re.compile(
    r"(?:to |let me |let us |let['’]s |we (?:can )?)?(?:check|verify|verification|explanation|reason(?:ing)?|proof"
    r"|probe)\b|(?:how|what|find|which|would you|do you|shall|can you|want|should i)\b.*\?"
)
_AGAINST = re.compile(r"\b(?:not|never|cannot|no|false|suppose|let|than)\b|n['’]t\b")
_EXCLAIMED = re.compile(r"[a-z][^#]{0,40}#!\W{0,9}\Z")
"""A number before an exclamation mark at the end of words, which may be a factorial."""
_CONVERTED = re.compile(r"# ?[a-z]{1,20},? (?:that is|i\.?e\.?),? ?#")
"""A number in one unit, and again in another."""
_THOUSANDS = re.compile(r"\d\.\d{3}(?!\d)")
"""A point that marks thousands in many languages: 12.500."""
_OPERATION = re.compile(r"[-+*/^!√\\]|\dmod\b|\d mod")
_UNDONE = re.compile(
    r"(?:\b(?:is|are|have|get|in|of|answer)|=|:) ([^a-z=:]{2,60}(?:\\?(?:sqrt"
    r"|[dt]?binom)[^a-z=:]{2,40})?)(?: ?[a-z]+){0,4} ?\.?$"
)
_ALONE = re.compile(r"[\s.,;:!'\"()*_•·…✓✔✅☑🎉→⇒∴{}-]*#[ .%]*")
_EQUATED = re.compile(r"[^=;,\n]{0,80}(?:=|\bequals\b) ?#(?! ?[*/^!(a-zπ√])")
_UNREAD = re.compile(
    r"[^\W_a-z]|[√^\\!|‖⌊⌈]|#[a-z(]|[a-z]\(|[#)] ?[*/:·•]{1,2} ?[#(a-z]|[#)] ?[+-] ?[#(a-z]|# % #"
    r"|# (?:(?:[a-z]+ )?(?:in|out of|of|than) |(?:choose|times|over|by|x|per|mod|plus|less) |(?:multiplied|divided) by "
    r"|to the(?: power)?(?: of)? )?#|(?<!['’])\b(?!did\b)[ivxlcdm]{2,9}\b"
    r"|\b(?:twice|double|triple|pair|couple|score|gross|once|single|pi|unity|zero|squared?|cubed?|root|sqrt|log|ln"
    rf"|factorial|binary|octal|hex\w*|base|(?:{'|'.join(SCALES)}|[a-z]{{0,9}}illion)s?)\b"
)
"""Operations, and numbers that were not read: in words, in another alphabet, or Roman."""
_ENGLISH = re.compile(r"\b(?:the|this|that|there|which|with|from|and|you|have|not|such|solve|found|yes)\b")
"""Words of English alone: a text with one is taken to have no number in another language."""
_LESS = re.compile(r"\b(?:under|loss|los[et]|decreas|declin|reduc|drop|debt|deficit|down|left|fell|behind)")
_COMPOUND = re.compile(r"# ?[a-z]{1,9}\.?,?(?: and)? # ?(?:h|m|min|s|sec|minutes?|seconds?|cents?|inch(?:es)?|in|oz)\b")
_SHARE = re.compile(r"\W*# ?out of #\W*")
_SIGN_OR_LAYOUT = re.compile(r"(?:\A|\b(?:is|equals)\b|[=:]) ?[->—] ?#|(?<![\w)}#-])-#")
"""A sign apart from its number or beside another, and > before a number: a list item, a quotation or an operator."""
_READ = 4_000
"""Characters of a final answer that are read, counted from the end."""


def number(answer: str, gold: str) -> Score:
    """Score whether `answer` states the number `gold`."""
    text = plain(final_answer(answer))[-_READ:]
    if not text or refuses(text, [gold]):
        return decided(False, "no answer")
    expected = as_number(gold)
    if expected is None and (expected := evaluate(plain(gold))) is None:
        return undecided("the gold answer is no number")
    around, values = marked(text)
    if values == [expected] and expected and _CHANGED.fullmatch(around):
        return decided(False, "changed")
    if {expected, -expected} & {*values} and (
        _SIGN_OR_LAYOUT.search(around) or _EXCLAIMED.search(around) or _CONVERTED.search(around)
    ):
        return undecided("a list item or a sign, an exclamation or a factorial, or two units")
    if _SHARE.fullmatch(around):
        above, below = values
        right = above is not None and bool(below) and above == expected * (below or 1)
        return decided(True, RULE) if right else undecided("a share, or a number of parts")
    found = _stated(around, values)
    if found is None and _OPERATION.search(text) and not _AMBIGUOUS.fullmatch(around):
        found = evaluate(text) or _undone(text, around)
    if found is None and _absent(expected, around, values):
        return decided(False, "not stated")
    if found is None:
        return undecided("no single number in a known shape")
    equal = {expected}
    if ("%" in around) != ("%" in marked(plain(gold))[0]):
        equal.add(100 * expected if "%" in around else expected / 100)
    if found in equal:
        return decided(True, RULE)
    if any(near(found, one) for one in equal) or (expected == 1000 * found and _THOUSANDS.search(text)):
        return undecided("rounded, or with another mark of thousands")
    parts = {scale for word, scale in SCALES.items() if scale < 1 and word in text.lower() and word not in around}
    if found in {expected * scale for scale in parts} or (found == -expected and _LESS.search(around)):
        return undecided("a number of parts, or a loss")
    return decided(False, RULE)


def _absent(expected: Fraction, around: str, values: list[Fraction | None]) -> bool:
    """Return whether all numbers of a text are read, none is the expected one, and nothing is left to calculate."""
    rest = _EQUATED.sub("#", around)
    if not (expected and (values or _ENGLISH.search(rest))) or _UNREAD.search(rest) or _COMPOUND.search(rest):
        return False
    read = {*values, *(Fraction(from_words(one[0])) for one in IN_WORDS.finditer(around))}
    if read & {None, -expected, expected / 100}:
        return False
    return not any(near(value, one) for value in read if value is not None for one in (expected, 100 * expected))


def _undone(text: str, around: str) -> Fraction | None:
    """Return the value of the unevaluated calculation at the end of a text: "there are 6! ways"."""
    found = _UNDONE.search(" ".join(text.split()).strip("*").lower()[-200:])
    if (
        not found
        or _AGAINST.search(around)
        or _TAKES_BACK.search(around)
        or not _OPERATION.search(found[1].strip()[1:])
    ):
        return None
    return evaluate(found[1])


def as_number(text: str) -> Fraction | None:
    """Return the one number that `text`, which is no list, states; None if there is none or several are possible."""
    return _stated(*marked(re.sub(r"\A\s*([+-])\s+(?=[\d.(])", r"\1", plain(text))))


def _stated(around: str, values: list[Fraction | None]) -> Fraction | None:
    """Return the number that all sentences of a text together state; the text is given as `marked` returns it."""
    if _LABEL.search(around):
        return None
    answers: set[Fraction | None] = set()
    others: set[Fraction | None] = set()
    conclusion: tuple[Fraction | None] | None = None
    rest, first = iter(values), True
    lines = around.split("\n")
    for sentence in filter(str.strip, _SENTENCES.split(around)):
        here = [next(rest) for _ in range(sentence.count("#"))]
        if _DENIED.fullmatch(sentence):
            continue
        lead = _EXPLICIT.search(sentence)
        start = lead.end() if lead else 0
        takes_back = (answers or conclusion) and _RETRACTS.search(sentence[:start] or sentence)
        if takes_back and not lead:
            return None
        if not lead and _ASIDE.match(sentence):
            continue
        place, concludes = _place(sentence[start:])
        found = None if place is None else here[place + sentence[:start].count("#")]
        alone = _ALONE.fullmatch(sentence) and (sentence in (lines[0], lines[-1]) or (first and here != [1]))
        first = False
        if (lead and here) or alone:
            hedged = lead and not takes_back and _hedged_lead(sentence[: lead.start()], lead[0])
            answers = (set() if takes_back else answers) | {None if hedged else found}
        elif here:
            others.add(found)
        if here and (concludes or (found is not None and _TOTAL.search(sentence))):
            conclusion = (found,)
    if answers:
        return answers.pop() if len(answers) == 1 else None
    if len(others) == 1 and not any(character.isdecimal() for character in around):
        return others.pop()
    return conclusion[0] if conclusion else None


def _hedged_lead(before: str, lead: str) -> bool:
    """Return whether "the answer is" is denied or in doubt, or is about another answer: "the naive answer is"."""
    word = re.split(r"[^a-z]", before.strip())[-1]
    if word and word not in _ANSWERS and lead.startswith("answer"):
        return True
    return bool(_HEDGES.search(_CLAUSES.split(before)[-1] + lead + "#") or re.search(r"\bassum", before))


def _place(sentence: str) -> tuple[int | None, bool]:
    """Return the index of the # that a sentence states, and whether it states it as a conclusion.

    The index counts from 0; it is None if the sentence has no known shape.
    """
    starts = [0, *(match.end() for match in _CONCLUDES.finditer(sentence))]
    for start in reversed(starts):
        clause, skipped = sentence[start:].strip(), sentence[:start].count("#")
        if "#" not in clause:
            continue
        if found := _STATED.fullmatch(clause):
            around = found["before"].replace("#", "0") + "#" + found["unit"]
            hedged = (
                _HEDGES.search(around)
                or _TAKES_BACK.search(found["tail"] or "")
                or _ABOUT_THE_WORK.search(around)
                or _AFTER.search(around)
            )
            return (None if hedged else skipped + found["before"].count("#")), start > 0
        if _MIRRORED.fullmatch(clause):
            return skipped, start > 0
        if found := _EQUATION.fullmatch(clause):
            first, _, others = found["left"].partition("=")
            words = re.findall(r"[a-z]+", first.partition("#")[2] + others)
            known = all((len(word) < 3 and word not in ("or", "if")) or word in _FUNCTIONS for word in words)
            if known and not _HEDGES.search(first.partition("#")[0]) and not _HEDGES.search("#" + found["unit"]):
                return skipped + found["left"].count("#"), start > 0
    return None, False
