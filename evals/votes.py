"""Majority vote over the samples of a task (self-consistency).

Answers are counted by the value that a scorer reads from them: the option of a multiple-choice task, the number where
the gold answer is one, yes or no where that is the gold answer; any other answer by its normal form.

Source: X. Wang et al., "Self-consistency improves chain of thought reasoning in language models", ICLR 2023.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from agentflow.evals.record import Record
from agentflow.evals.scorers.canonical import canonical
from agentflow.evals.scorers.final import final_answer
from agentflow.evals.scorers.free_text import normalise
from agentflow.evals.scorers.latex import plain
from agentflow.evals.scorers.number import as_number
from agentflow.evals.scorers.option import option
from agentflow.evals.scorers.score import Decision
from agentflow.evals.scorers.yes_no import yes_or_no
from agentflow.graph.run.task import Task

_NUMERIC = re.compile(r"[-+]?[\d.,/]{1,60}")


def majority(records: Sequence[Record]) -> float | None:
    """Return the accuracy of each task's most frequent value; None unless a task has several samples.

    Of equally frequent values, the first counts. A value is correct if one of the samples that state it is.
    """
    tries: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        tries[record.benchmark, record.task.id].append(record)
    if not tries or max(map(len, tries.values())) < 2:
        return None
    return sum(map(_elects_correct, tries.values())) / len(tries)


def _elects_correct(tries: Sequence[Record]) -> bool:
    values = [(value_of(record.task, record.answer), record) for record in tries if record.scorable]
    votes = Counter(value for value, _ in values).most_common(1)
    return any(record.correct for value, record in values if value == votes[0][0])


def value_of(task: Task, answer: str) -> str:
    """Return the value that `answer` states, as text that is the same for answers of the same value."""
    text = plain(final_answer(answer))
    read: object = None
    if options := task.data.get("options"):
        read = _chosen(options, answer)
    elif normalise(task.gold) in ("yes", "no"):
        read = yes_or_no(text)
    elif _NUMERIC.fullmatch(task.gold):
        read = as_number(text)
    return canonical(text) if read is None else str(read)


def _chosen(options: Mapping[str, str], answer: str) -> str | None:
    """Return the letter of the option that `answer` chooses; None if it is unclear."""
    for letter in options:
        score = option(answer, options, letter)
        if score.decision != Decision.INCORRECT:
            return letter if score.correct else None
    return None
