"""A look at a file of questions before money is spent: what is read, how answers will be scored, and what is wrong."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentflow.evals.benchmarks import readers
from agentflow.evals.benchmarks.errors import READING, refused
from agentflow.evals.benchmarks.own import SCORE_AS, reading
from agentflow.evals.benchmarks.rows import OPTION, read_rows
from agentflow.evals.scorers.canonical import same
from agentflow.evals.scorers.free_text import gold_type
from agentflow.graph.run.task import Task
from agentflow.tools.redaction import cut


@dataclass(frozen=True)
class FileCheck:
    """The tasks that were read from a file of questions, and the problems that were found."""

    tasks: Mapping[str, Task]
    """The tasks by their place in the file, without repeated ones."""
    repeated: int
    unread: Sequence[str]
    """Columns that only a rule of the user's own can read."""
    types: Mapping[str, int]
    """How many gold answers have which type, which decides how answers are compared: "number", "option"."""
    problems: Sequence[str]
    """A line for each row that is refused, contradicts another, or whose answer is not the only correct one."""


def check(path: Path) -> FileCheck:
    """Read a file of questions and score its gold answers. Raises BenchmarkError if the file cannot be read."""
    rows = read_rows(path)
    read, rule = reading(rows)
    tasks: dict[str, Task] = {}
    asked: dict[str, str] = {}
    problems, repeated = [], 0
    for place, row in rows:
        try:
            one = read(row)
        except READING as error:
            problems.append(str(refused(f"{place} is no question", row, error)))
            continue
        first = asked.setdefault(one.question, place)
        if first != place and not same(one.gold, tasks[first].gold):
            problems.append(f"{place} asks what {first} asks, and has another answer")
        elif first != place and str(one.data) == str(tasks[first].data):
            repeated += 1
        else:
            tasks[place] = one
    for place, one in tasks.items():
        if not (score := rule(one, one.gold)).correct:
            problems.append(f"{place}: its own answer {cut(one.gold, 40)!r} is {score.decision} ({score.decided_by})")
        if sum(same(content, one.gold.partition(". ")[2]) for content in one.data.get("options", {}).values()) > 1:
            problems.append(f"{place}: another option has the text of the right one")
    types = Counter("option" if "options" in one.data else gold_type(one.gold) for one in tasks.values())
    columns = {one for _, row in rows for one in row if not (row.get("options") and OPTION.fullmatch(one))}
    unread = sorted(columns - readers.COLUMNS - {SCORE_AS})
    return FileCheck(tasks, repeated, unread, types, problems)
