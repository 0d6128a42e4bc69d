"""The built-in benchmarks.

Revisions and the two checksums were recorded publicly by others and have not been verified by a download. A missing
revision or checksum is fixed by the first download: see `store`.
"""

from collections.abc import Iterator
from functools import partial

from agentflow.evals.atlas.discovery import LEVELS
from agentflow.evals.benchmarks import own, readers
from agentflow.evals.benchmarks.benchmark import ALL, OFFICIAL, Benchmark, Judging
from agentflow.evals.benchmarks.errors import BenchmarkError
from agentflow.evals.benchmarks.puzzles import puzzle, puzzles
from agentflow.evals.benchmarks.store import DatasetSource
from agentflow.evals.scorers.exact import correct
from agentflow.evals.scorers.expression import expression
from agentflow.evals.scorers.free_text import free_text
from agentflow.evals.scorers.gaia import quasi_exact
from agentflow.evals.scorers.number import number
from agentflow.evals.scorers.option import option
from agentflow.evals.scorers.score import Score, decided
from agentflow.graph.run.task import Task, identity

ATLAS_SIZE = 600
"""Number of Atlas questions in the benchmark; any number can be generated."""

_REFERENCE = "github.com/lupantech/AgentFlow"
"""The reference implementation, whose folder test/ has the questions and answers of all ten data sets."""
_AOPS = "artofproblemsolving.com/wiki/index.php"


def _text(one: Task, answer: str) -> Score:
    return free_text(answer, [one.gold, *one.data.get("aliases", [])])


def _number(one: Task, answer: str) -> Score:
    return number(answer, one.gold)


def _gaia(one: Task, answer: str) -> Score:
    return quasi_exact(answer, one.gold)


def _option(one: Task, answer: str) -> Score:
    return option(answer, one.data["options"], one.data["letter"])


def _expression(one: Task, answer: str) -> Score:
    return expression(answer, one.data["numbers"], one.data["target"])


def _atlas(one: Task, answer: str) -> Score:
    return decided(correct(answer, one.gold, tuple(one.data["numbers"]), one.data["target"]), "exact")


def _atlas_tasks(subset: str, level: str = "atlas") -> Iterator[Task]:
    for asked in LEVELS[level]("train" if subset == "train" else "test", ATLAS_SIZE):
        yield Task(
            id=identity(asked.family, asked.question, asked.answer),
            question=asked.question,
            gold=asked.answer,
            family=asked.family,
            data={"numbers": list(asked.numbers), "target": asked.target},
        )


_BENCHMARKS = (
    Benchmark(
        name="bamboogle",
        title="Bamboogle (Press et al., 2022)",
        licence="MIT",
        size=125,
        rule=_text,
        judging=Judging.DECIDES,
        read=readers.text,
        source=DatasetSource(
            "chiayewken/bamboogle", ("data/test-*.parquet",), 125, "5787baaae24a33baee4cf57a4cc743e8a02cd548"
        ),
        pages=("github.com/ofirpress/self-ask", _REFERENCE),
    ),
    Benchmark(
        name="2wiki",
        title="2WikiMultihopQA (Ho et al., 2020), validation",
        licence="Apache-2.0",
        size=12_576,
        rule=_text,
        judging=Judging.DECIDES,
        read=readers.text,
        source=DatasetSource("framolfese/2WikiMultihopQA", ("data/validation-*.parquet",), 12_576),
        pages=("github.com/Alab-NII/2wikimultihop", "huggingface.co/datasets/xanhho/2WikiMultihopQA", _REFERENCE),
    ),
    Benchmark(
        name="hotpotqa",
        title="HotpotQA (Yang et al., 2018), validation",
        licence="CC BY-SA 4.0",
        size=7405,
        rule=_text,
        judging=Judging.DECIDES,
        read=readers.text,
        source=DatasetSource(
            "hotpotqa/hotpot_qa",
            ("distractor/validation-*.parquet",),
            7405,
            "1908d6afbbead072334abe2965f91bd2709910ab",
            {
                "distractor/validation-00000-of-00001.parquet": (
                    "c20b638ca82b21d04fe12e14ff417ad05153d4d215a65de54497fca4e972f7c6"
                )
            },
        ),
        pages=("hotpotqa.github.io", "github.com/hotpotqa/hotpot", "huggingface.co/datasets/hotpot_qa", _REFERENCE),
    ),
    Benchmark(
        name="musique",
        title="MuSiQue (Trivedi et al., 2022), answerable, validation",
        licence="CC BY 4.0",
        size=2417,
        rule=_text,
        judging=Judging.DECIDES,
        read=readers.text,
        source=DatasetSource(
            "dgslibisey/MuSiQue", ("musique_ans_v1.0_dev.jsonl",), 2417, "c8f4f8c9465fb69d31a8eae894c3fd509c4ca321"
        ),
        pages=("github.com/StonyBrookNLP/musique", _REFERENCE),
    ),
    Benchmark(
        name="gaia",
        title="GAIA (Mialon et al., 2023), validation, tasks without a file",
        licence="gated, not to be reshared",
        size=127,
        rule=_gaia,
        judging=Judging.SECOND_OPINION,
        read=readers.gaia,
        source=DatasetSource(
            "gaia-benchmark/GAIA",
            ("2023/validation/metadata.parquet",),
            127,
            "682dd723ee1e1697e00360edccf2366dc8418dd9",
            gated=True,
        ),
        pages=("huggingface.co/spaces/gaia-benchmark", _REFERENCE),
    ),
    Benchmark(
        name="aime24",
        title="AIME 2024 I and II",
        licence="MIT; problems (c) MAA",
        size=30,
        rule=_number,
        judging=Judging.DECIDES,
        read=readers.number,
        source=DatasetSource("Maxwell-Jia/AIME_2024", ("*.parquet",), 30, "6ea1138c788ec83451c58820b585e18a2a366270"),
        pages=(
            "huggingface.co/datasets/HuggingFaceH4/aime_2024",
            *(f"{_AOPS}/2024_AIME_{part}_Problems" for part in ("I", "II")),
            _REFERENCE,
        ),
    ),
    Benchmark(
        name="amc23",
        title="AMC 12 2023, problems with a whole number as answer",
        licence="problems (c) MAA",
        size=40,
        rule=_number,
        judging=Judging.DECIDES,
        read=readers.number,
        source=DatasetSource("math-ai/amc23", ("test-*.parquet",), 40),
        pages=(*(f"{_AOPS}/2023_AMC_12{part}_Problems" for part in "AB"), _REFERENCE),
    ),
    Benchmark(
        name="game24",
        title="Game of 24 (Yao et al., 2023)",
        licence="generated",
        size=1362,
        rule=_expression,
        judging=Judging.NEVER,
        read=puzzle,
        generate=puzzles,
        subsets=(ALL, "tot-hard", OFFICIAL),
        pages=("github.com/princeton-nlp/tree-of-thought-llm", _REFERENCE),
    ),
    Benchmark(
        name="gpqa",
        title="GPQA (Rein et al., 2023): diamond, and the extended set around it",
        licence="CC BY 4.0, gated, not to be shown in plain text",
        size=546,
        rule=_option,
        judging=Judging.EXTRACTS,
        read=readers.gpqa,
        source=DatasetSource(
            "Idavidrein/gpqa",
            ("gpqa_diamond.csv", "gpqa_extended.csv"),
            198 + 546,
            "633f5ee89ab8ad4522a9f850766b73f62147ffdd",
            {"gpqa_diamond.csv": "41d1213cd7a4998605a26c2798500652572007161b3a92817ba46b35befcd305"},
            gated=True,
        ),
        subsets=("diamond", OFFICIAL, ALL),
        pages=("github.com/idavidrein/gpqa", _REFERENCE),
    ),
    Benchmark(
        name="medqa",
        title="MedQA (Jin et al., 2021), USMLE, four options, test",
        licence="CC BY 4.0",
        size=1273,
        rule=_option,
        judging=Judging.EXTRACTS,
        read=readers.choice,
        source=DatasetSource(
            "GBaker/MedQA-USMLE-4-options",
            ("phrases_no_exclude_test.jsonl",),
            1273,
            "0fb93dd23a7339b6dcd27e241cb9b5eca62d4d18",
        ),
        pages=("github.com/jind11/MedQA", "huggingface.co/datasets/bigbio/med_qa", _REFERENCE),
    ),
    Benchmark(
        name="atlas",
        title="Atlas, AgentFlow's own",
        licence="generated",
        size=ATLAS_SIZE,
        rule=_atlas,
        judging=Judging.NEVER,
        generate=_atlas_tasks,
        subsets=("test", "train"),
        corpus="atlas",
    ),
    Benchmark(
        name="atlas-discovery",
        title="Atlas, known steps in unknown orders",
        licence="generated",
        size=ATLAS_SIZE,
        rule=_atlas,
        judging=Judging.NEVER,
        generate=partial(_atlas_tasks, level="discovery"),
        subsets=("test", "train"),
        corpus="atlas",
    ),
)

BENCHMARKS = {one.name: one for one in _BENCHMARKS}
"""The benchmarks by name."""


def benchmark(name: str) -> Benchmark:
    """Return the built-in benchmark `name`, or load the user's own (`own`). Raises BenchmarkError."""
    if name in BENCHMARKS:
        return BENCHMARKS[name]
    if not own.is_own(name):
        raise BenchmarkError(
            f"there is no benchmark '{name}'; there are {', '.join(BENCHMARKS)}, and your own: a file of questions, or "
            "module:attribute",
            code="unknown_benchmark",
        )
    found = own.load(name)
    if found.name in BENCHMARKS:
        raise BenchmarkError(
            f"{name} is called '{found.name}', as one of ours is; give it another name", code="name_taken"
        )
    return found
