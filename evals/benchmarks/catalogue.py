"""The built-in benchmarks: those to download in `catalogue.json`, and those that are generated.

Revisions and the two checksums were recorded publicly by others and have not been verified by a download. A missing
revision or checksum is fixed by the first download: see `store`.
"""

import json
import os.path
from collections.abc import Callable, Iterator
from importlib.resources import files

from agentflow.evals.atlas.families import questions
from agentflow.evals.atlas.world import Split
from agentflow.evals.benchmarks import own, readers
from agentflow.evals.benchmarks.benchmark import ALL, OFFICIAL, Benchmark, Judging
from agentflow.evals.benchmarks.errors import BenchmarkError
from agentflow.evals.benchmarks.puzzles import puzzle, puzzles
from agentflow.evals.benchmarks.store import DatasetSource
from agentflow.evals.scorers.exact import correct
from agentflow.evals.scorers.expression import expression
from agentflow.evals.scorers.gaia import quasi_exact
from agentflow.evals.scorers.number import number
from agentflow.evals.scorers.score import Score, decided
from agentflow.graph.run.task import Task, identity
from agentflow.tools.named_object import is_object_name

ATLAS_SIZE = 600
"""Number of Atlas questions in the benchmark; any number can be generated."""

FINAL = slice(ATLAS_SIZE, ATLAS_SIZE + 200)
"""Test questions of the subset `final`, after all that any validation, comparison or choice has seen. They are for
figures alone: whoever chooses anything by them needs others."""

_REFERENCE = "github.com/lupantech/AgentFlow"
"""The reference implementation, whose folder test/ has the questions and answers of all ten data sets."""


def _atlas(one: Task, answer: str) -> Score:
    return decided(correct(answer, one.gold, tuple(one.data["numbers"]), one.data["target"]), "exact")


def _atlas_tasks(subset: str) -> Iterator[Task]:
    split: Split = "train" if subset == "train" else "test"
    chosen = FINAL if subset == "final" else slice(ATLAS_SIZE)
    found = questions(split, chosen.stop)[chosen]
    if subset == "calibration":  # like the test's, and none of them
        tested = {one.question for one in questions("test", FINAL.stop)}
        found = tuple(one for one in questions("test", ATLAS_SIZE, 1) if one.question not in tested)
    for asked in found:
        yield Task(
            id=identity(asked.family, asked.question, asked.answer),
            question=asked.question,
            gold=asked.answer,
            family=asked.family,
            data={"numbers": list(asked.numbers), "target": asked.target},
        )


_SCORED: dict[str, tuple[Callable[[Task, str], Score], Judging]] = {
    "text": (own.by_text, Judging.DECIDES),
    "number": (lambda one, answer: number(answer, one.gold), Judging.DECIDES),
    "gaia": (lambda one, answer: quasi_exact(answer, one.gold), Judging.SECOND_OPINION),
    "option": (own.by_letter, Judging.EXTRACTS),
}
"""Rule and judging by the name of the rule in `catalogue.json`."""


def _downloaded() -> Iterator[Benchmark]:
    """Yield the benchmarks of `catalogue.json`."""
    for row in json.loads(files(__package__).joinpath("catalogue.json").read_bytes()):
        rule, judging = _SCORED[row["rule"]]
        source = DatasetSource(**{**row["source"], "files": tuple(row["source"]["files"])})
        yield Benchmark(
            name=row["name"],
            title=row["title"],
            licence=row["licence"],
            size=row["size"],
            rule=rule,
            judging=judging,
            read=getattr(readers, row["reader"]),
            source=source,
            subsets=tuple(row.get("subsets", (ALL, OFFICIAL))),
            pages=(*row["pages"], _REFERENCE),
        )


_GENERATED = (
    Benchmark(
        name="game24",
        title="Game of 24 (Yao et al., 2023)",
        licence="generated",
        size=1362,
        rule=lambda one, answer: expression(answer, one.data["numbers"], one.data["target"]),
        judging=Judging.NEVER,
        read=puzzle,
        generate=puzzles,
        subsets=(ALL, "tot-hard", "tot-rest", OFFICIAL),
        pages=("github.com/princeton-nlp/tree-of-thought-llm", _REFERENCE),
    ),
    Benchmark(
        name="atlas",
        title="Atlas, AgentFlow's own",
        licence="generated",
        size=ATLAS_SIZE,
        rule=_atlas,
        judging=Judging.NEVER,
        generate=_atlas_tasks,
        subsets=("test", "train", "final", "calibration"),
        corpus="atlas",
    ),
)

BENCHMARKS = {one.name: one for one in (*_downloaded(), *_GENERATED)}
"""The benchmarks by name."""


def benchmark(name: str) -> Benchmark:
    """Return the built-in benchmark `name`, or load the user's own (`own`). Raises BenchmarkError."""
    if name in BENCHMARKS:
        return BENCHMARKS[name]
    if not is_object_name(name) and not own.is_file(name):
        known = f"{', '.join(BENCHMARKS)}, and your own: a file of questions, or module:attribute"
        why = f"there is no benchmark '{name}'; there are {known}"
        if os.path.isfile(name):
            why = f"{name} has to end in {', '.join(own.FILES)}"
        raise BenchmarkError(why, code="unknown_benchmark")
    found = own.load(name)
    if found.name in BENCHMARKS:
        why = f"{name} is called '{found.name}', as one of ours is; give it another name"
        raise BenchmarkError(why, code="name_taken")
    return found
