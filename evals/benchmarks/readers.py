"""Readers that convert rows of data sets to tasks.

Each reader accepts the columns of its data set and of the usual copies, and generic ones: question, answer (a text, a
number or a list of accepted ones), aliases, options. A row without such a column raises KeyError with the names of
those that are accepted; a value that is empty or of another kind, ValueError.
"""

import random
import re
import string
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from agentflow.evals.scorers.canonical import same
from agentflow.evals.scorers.number import as_number
from agentflow.graph.run.task import Task
from agentflow.tools.redaction import cut

Row = Mapping[str, Any]

LETTERS = string.ascii_uppercase

QUESTIONS = ("question", "Question", "problem", "Problem", "question_stem")
_REFERENCES = ("ground_truth", "reference", "expected", "expected_output", "correct_answer", "reference_answer")
_OWN = ("answer", "Answer", "Final answer", "golden_answers")
_ANSWER = (*_OWN, "result", "gold", *_REFERENCES, "reference_outputs")
_LETTER = ("answer_idx", "answer", "answerKey")
_ALIASES = ("answer_aliases", "aliases")
COLUMNS = {*QUESTIONS, *_ANSWER, *_ALIASES, *_LETTER, "options", "choices", "type", "source", "meta_info"}
_ASKS = "Answer with the letter of one option."
_LETTERED = re.compile(r"[(\[]?([A-Za-z])(?:[.:] +|[)\]] *)(?=\S)")
_SOLUTION = re.compile(r"\A.*(?:^|\s|\\n)#### *(?=\S)", re.DOTALL | re.MULTILINE)
"""The worked solution before the answer in a row of GSM8K."""


def text(row: Row) -> Task:
    """Read a question with a short answer and its aliases."""
    gold, *aliases = accepted(row)
    return Task.of(_cell(row, QUESTIONS), gold, str(row.get("type") or row.get("source") or ""), aliases=aliases)


def number(row: Row) -> Task:
    """Read a problem whose answer is a number."""
    gold = _answers(row)[0]
    value = as_number(gold)
    if value is None:
        raise ValueError(f"the answer {cut(gold, 40)!r} is no number")
    return Task.of(_cell(row, QUESTIONS), str(value))


def accepted(row: Row) -> list[str]:
    """Return the gold answer and its aliases. Raises KeyError or ValueError."""
    return _answers(row) + [one for name in _ALIASES for one in _texts(row, name)]


def _answers(row: Row) -> list[str]:
    """Return the accepted answers; those in another column must agree with them. Raises KeyError or ValueError."""
    name = _column(row, [one for one in _OWN if one in row] or _ANSWER)  # no status of a run for an empty answer
    found = [_SOLUTION.sub("", one) for one in _texts(row, name)]
    if name == "result":  # a training set, in which the accepted answers are joined
        return found[0].split("; ")
    for other in _ANSWER:
        others = [] if other in (name, "result") else _texts(row, other)
        if others and not any(same(_SOLUTION.sub("", one), gold) for one in others for gold in found):
            raise ValueError(f"the columns {name!r} and {other!r} hold different answers")
    return found


def gaia(row: Row) -> Task | None:
    """Read a GAIA task; None if it has a file."""
    if row.get("file_name"):
        return None
    level = row.get("Level")
    return Task.of(_cell(row, QUESTIONS), _cell(row, _ANSWER), f"level {level}" if level else "")


def gpqa(row: Row) -> Task:
    """Read a GPQA question. GPQA's files list the right option first, so options are shuffled deterministically."""
    if "Correct Answer" not in row:
        return choice(row)
    stem, right = row["Question"].strip(), row["Correct Answer"].strip()
    texts = [right, *(row[f"Incorrect Answer {number}"].strip() for number in (1, 2, 3))]
    random.Random(stem).shuffle(texts)
    family = "diamond" if "diamond" in row["file"] else "extended"
    return _choice(stem, dict(zip(LETTERS, texts, strict=False)), LETTERS[texts.index(right)], family)


def choice(row: Row) -> Task:
    """Read a question with options, by key or in order; the answer is a key, a letter, an index from 0, or the text."""
    name = _column(row, ("options", "choices"))
    if isinstance(row[name], str):
        raise ValueError(f"the column {name!r} holds a text where a list or an object is expected")
    if isinstance(found := row[name], Mapping) and found.keys() == {"label", "text"}:  # ARC
        found = dict(zip(found["label"], found["text"], strict=True))
    if isinstance(found, Mapping):  # a table has each key in every row
        keys, texts = [*map(str, found)], ["" if empty(one) else _plain(name, one) for one in found.values()]
    else:
        keys, texts = _unlabelled([_plain(name, one) for one in found])
    options = dict(zip(_letters(keys), texts, strict=True))
    numeric = not any(isinstance(one, str) for one in (found.values() if isinstance(found, Mapping) else found))
    letter = _letter(row, options, dict(zip(keys, options, strict=True)), numeric)
    options = {one: content for one, content in options.items() if content}  # those left out counted for an index
    return _choice(_cell(row, QUESTIONS), options, letter, str(row.get("meta_info") or ""))


def _letter(row: Row, options: Mapping[str, str], keys: Mapping[str, str], numeric: bool) -> str:
    """Return the letter of the right option: the only one that all columns can mean. Raises KeyError or ValueError.

    `keys` maps the keys of the options to their letters; a key goes before a text.
    """
    first = _column(row, _LETTER)
    names = [name for name in _LETTER if not empty(row.get(name))]
    gold = _plain(first, row[first]).strip()
    meant = [found for name in names if (found := _meant(row[name], name, options, keys, numeric))]
    if not meant:
        raise ValueError(f"the answer {cut(gold, 40)!r} is not one of the options")
    common = set.intersection(*meant)
    if not common:
        raise ValueError(f"the columns {' and '.join(map(repr, names))} name different options")
    own = keys.get(gold, gold)
    if len(common) > 1 and own not in common:
        raise ValueError(f"the answer {cut(gold, 40)!r} can mean more than one option; write the option's letter")
    return own if own in common else common.pop()


def _meant(value: object, name: str, options: Mapping[str, str], keys: Mapping[str, str], numeric: bool) -> set[str]:
    """Return the letters of the options that a column can mean, by key, letter, text or an index from 0."""
    said, whole = _plain(name, value).strip(), isinstance(value, int) and not isinstance(value, bool)
    labelled = said.lstrip("([")[:1].upper(), _LETTERED.sub("", said, count=1)
    known = {one: (one, content.strip()) for one, content in options.items() if content}
    named = {one for one in known if said in known[one] or keys.get(said) == one or labelled == known[one]}
    by_index = (whole or name == "answer_idx") and said.isdecimal() and said not in keys
    indexed = {letter for letter in list(options)[int(said) :][:1] if options[letter]} if by_index else set[str]()
    return indexed if indexed and whole and not numeric else named | indexed


def _choice(stem: str, options: dict[str, str], letter: str, family: str) -> Task:
    listed = "\n".join(f"{one}. {content}" for one, content in options.items())
    question = f"{stem}\n\n{listed}\n\n{_ASKS}"
    gold = f"{letter}. {options[letter]}"
    return Task.of(question, gold, family, stem=stem, options=options, letter=letter)


def without_options(question: str) -> str:
    """Return a question as other pages contain it: of multiple choice, without its options."""
    return question.partition("\n\nA. ")[0] if question.endswith(_ASKS) else question


def _unlabelled(texts: list[str]) -> tuple[list[str], list[str]]:
    """Return the letters with which texts begin, empty if they are not labelled in order, and the texts without."""
    begin = [match[1] if (match := _LETTERED.match(one)) else "" for one in texts]
    if "".join(begin) in (LETTERS[: len(texts)], LETTERS[: len(texts)].lower()):
        return begin, [_LETTERED.sub("", one, count=1) for one in texts]
    return [""] * len(texts), texts


def _letters(keys: list[str]) -> list[str]:
    """Return the letters of options: their keys, if these are letters, else in order. Raises ValueError."""
    letters = [key.strip("()[].: ").upper() for key in keys]
    if len({*letters} & {*LETTERS}) == len(keys):
        return letters
    if len(keys) > len(LETTERS):
        raise ValueError(f"it has {len(keys)} options, and there are letters for {len(LETTERS)}")
    return [*LETTERS[: len(keys)]]


def _cell(row: Row, names: Sequence[str]) -> str:
    """Return the first of the columns `names` that is not empty, as text. Raises KeyError or ValueError."""
    name = _column(row, names)
    return _plain(name, row[name])


def _texts(row: Row, name: str) -> list[str]:
    """Return the texts of a column that holds a list or a single one, without empty ones. Raises ValueError."""
    value = row.get(name)
    return [_plain(name, one) for one in (value if isinstance(value, list | tuple) else [value]) if not empty(one)]


def empty(value: object) -> bool:
    """Return whether a cell holds nothing, which tables also write as null, NaN or a list of them."""
    if isinstance(value, list | tuple):
        return all(map(empty, value))
    return value in (None, {}) or value != value or not str(value).strip()


def _plain(name: str, value: object) -> str:
    if isinstance(value, Mapping | list | tuple | bytes | None) or value != value:
        nothing = value is None or value != value
        kind = "nothing" if nothing else "an object" if isinstance(value, Mapping) else f"a {type(value).__name__}"
        raise ValueError(f"the column {name!r} holds {kind} where a text or a number is expected")
    if isinstance(value, float | Decimal):  # without exponent
        return format(Decimal(str(value)), "f")
    if isinstance(value, datetime):
        return str(value).removesuffix(" 00:00:00")
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _column(row: Row, names: Sequence[str]) -> str:
    """Return the first of the columns `names` that is not empty.

    Raises KeyError with all names if none is there, and ValueError if those that are there are empty.
    """
    if not (there := [name for name in names if name in row]):
        raise KeyError(" or ".join(names))
    if not (filled := [name for name in there if not empty(row[name])]):
        raise ValueError(f"the column {there[0]!r} is empty")
    return filled[0]
