"""Subsets as lists of hashes, so that no question is published in this repository.

`subsets/NAME.SUBSET.txt` has one line per question, in order: the first 16 hexadecimal digits of the SHA-256 of the
benchmark's name and the question's words. The subset "official" is that of the reference implementation
(lupantech/AgentFlow, test/): the first 100 questions of its file. If these are the whole data set, there is no list.
"""

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from agentflow.evals.benchmarks.errors import BenchmarkError
from agentflow.graph.run.task import Task

FOLDER = Path(__file__).parent / "subsets"

_WORD = re.compile(r"\w+")


def key(name: str, question: str) -> str:
    """Return the hash of a question of benchmark `name`, which ignores case, whitespace and punctuation."""
    return hashlib.sha256(f"{name}\n{' '.join(words(question))}".encode("utf-8", "replace")).hexdigest()[:16]


def words(text: str) -> list[str]:
    """Return the words of a text in lower case, without punctuation."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def listed(name: str, subset: str) -> list[str]:
    """Return the hashes of a subset; an empty list if it has no list."""
    path = FOLDER / f"{name}.{subset}.txt"
    return path.read_text(encoding="ascii").split() if path.exists() else []


def chosen(name: str, subset: str, tasks: Sequence[Task]) -> list[Task]:
    """Return the tasks of a subset: the listed ones in order, else those of the family `subset`, else all tasks.

    Raises BenchmarkError if listed tasks are missing.
    """
    keys = listed(name, subset)
    if not keys:
        return [one for one in tasks if one.family == subset] or list(tasks)
    by_key = {key(name, one.stem): one for one in tasks}
    if lacking := sum(one not in by_key for one in keys):
        why = f"{lacking} of the {len(keys)} questions of {name}'s subset '{subset}' are not there"
        raise BenchmarkError(why, code="missing_questions")
    return [by_key[one] for one in keys]
