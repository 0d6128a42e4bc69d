"""Evaluation as a function: select tasks, run an agent on them, score the answers and store the records.

    results = agentflow.evaluate("atlas", limit=50, out="runs/atlas")
    results.accuracy("atlas")

The same call with the same folder resumes. `agentflow eval` is the same with a progress bar.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import cached_property, wraps
from itertools import chain
from pathlib import Path
from typing import Any, ParamSpec

from agentflow.evals.agent_names import AgentName
from agentflow.evals.agents import agent_graph
from agentflow.evals.audit import Flag, flags_of, own_models
from agentflow.evals.benchmarks.benchmark import Benchmark
from agentflow.evals.benchmarks.catalogue import BENCHMARKS, benchmark
from agentflow.evals.benchmarks.errors import BenchmarkError
from agentflow.evals.benchmarks.selection import ALL, Selection
from agentflow.evals.items import Item, ItemRunner, items, unfinished
from agentflow.evals.judge import cached_judge, judge_name
from agentflow.evals.metrics import Summary, interval, summarise
from agentflow.evals.provenance import provenance_of
from agentflow.evals.record import Dataset, EvaluationSettings, Record
from agentflow.evals.results_store import Records, ResultsStore
from agentflow.graph.context import DETERMINISTIC, MODULES, Context, Model, name_of
from agentflow.graph.models.loading import Fingerprinted, load_model
from agentflow.graph.run.cost import UNLIMITED, Budget
from agentflow.graph.run.task import Task, identity
from agentflow.tools.external import is_external

P = ParamSpec("P")

SHIPPED = ("embedded:seed", "embedded:trained")
"""Models that were trained on AgentFlow's prompts only."""


@dataclass(frozen=True)
class EvaluationRequest:
    """The settings of one evaluation."""

    benchmarks: Sequence[str]
    """Names of benchmarks, files of tasks, or `module:attribute`."""
    context: Context = field(default_factory=Context)
    agent: AgentName = "agentflow"
    subset: str = ""
    file: Path | None = None
    """File of tasks in the format of the one named benchmark, used instead of the benchmark's own."""
    selection: Selection = ALL
    limit: int | None = None
    """Most tasks of each benchmark, after `selection`."""
    epochs: int = 1
    """Samples of each task."""
    judge: Model = ""
    """The model that decides undecided answers; "" for none."""
    timeout: float | None = None
    """Most seconds of a sample."""
    retries: int = 0
    """Most repetitions of a sample that fails."""
    budget: Budget = UNLIMITED
    """Most tokens and dollars of a sample."""
    call: str = ""
    """Command line, for the provenance."""

    def hints(self) -> list[str]:
        """Return advice, a line each, on settings that are valid but rarely meant."""
        found, embedded = [], self.context.model_name_of("planner") in SHIPPED
        if self.agent != "agentflow" and embedded:
            found.append(f"the embedded model knows only AgentFlow's own prompts; give {self.agent} another model")
        elif embedded and any(name in BENCHMARKS and "atlas" not in name for name in self.benchmarks):
            found.append("the embedded model knows only Atlas and everyday sums; name another with --model")
        if self.judge and name_of(self.judge) in {self.context.model_name_of(module) for module in MODULES}:
            found.append("the judge is the model that answers; another one is less partial")
        return found


@dataclass(frozen=True)
class Results:
    """Records of an evaluation by benchmark."""

    records: dict[str, list[Record]]

    def summary(self, benchmark: str) -> Summary:
        """Return all metrics of a benchmark."""
        return summarise(self.records[benchmark], len(self.records[benchmark]))

    def accuracy(self, benchmark: str) -> float:
        """Return the share of correct samples, 0 to 1; failed and undecided samples count as wrong."""
        return self.summary(benchmark).total.accuracy

    def interval(self, benchmark: str) -> tuple[float, float]:
        """Return the 95 % interval of the accuracy."""
        return interval(self.records[benchmark])


class EvaluationRun:
    """A request whose tasks are loaded and whose folder is open. Use as a context manager."""

    def __init__(
        self, request: EvaluationRequest, items: dict[str, list[Item]], settings: EvaluationSettings, records: Records
    ) -> None:
        self.request, self.settings, self.records = request, settings, records
        self._items = items

    @classmethod
    async def open(cls, request: EvaluationRequest, out: Path | None = None) -> "EvaluationRun":
        """Load the tasks and open the folder `out`, which may have records of an earlier call.

        Raises:
            BenchmarkError: A benchmark, file or selection is wrong.
            ModelError: A model or tool cannot be loaded.
            RunFolderError: The folder holds another evaluation.
        """
        loaded, datasets = _load(request)
        provenance = [await provenance_of(request.agent, request.context, request.call)] if out else []
        settings = EvaluationSettings(
            benchmarks=datasets,
            epochs=request.epochs,
            subset=request.subset,
            file=request.file.name if request.file else "",
            agent=request.agent,
            context=request.context,
            timeout=request.timeout,
            max_tokens=request.budget.tokens,
            max_cost=request.budget.dollars,
            prices=dict(request.budget.prices),
            judge=judge_name(request.judge) if request.judge else "",
            checkpoints=_checkpoints(request.context, request.judge),
            provenance=provenance,
        )
        return cls(request, loaded, settings, ResultsStore(out, settings) if out else Records())

    def __enter__(self) -> "EvaluationRun":
        return self

    def __exit__(self, *_: object) -> None:
        self.records.close()

    @cached_property
    def items(self) -> list[Item]:
        """Return every sample of every task, grouped by benchmark."""
        return [item for found in self._items.values() for item in found]

    @property
    def gated(self) -> set[str]:
        """Return the names of the benchmarks whose texts must not be shown."""
        return {item.benchmark.name for item in self.items if item.benchmark.gated}

    @property
    def flags(self) -> list[list[Flag]]:
        """Return the flags of each record so far (`agentflow.evals.audit`)."""
        models, records = own_models(self.settings), chain.from_iterable(self.results.records.values())
        return [flags_of(record, models) for record in records]

    def unfinished(self, *, retry: bool = False) -> list[Item]:
        """Return the items without a record; with `retry` also those that failed or whose judge failed."""
        return unfinished(self.items, self.records.by_key, retry=retry)

    async def run(self, left: Sequence[Item], *, concurrency: int, on_record: Callable[[Record], None]) -> None:
        """Run and score the items in `left`; `on_record` is called with each record after it is stored.

        Raises ModelError if the settings are wrong, and OSError if a record cannot be written.
        """
        request = self.request
        plan = ItemRunner(
            agent_graph(request.agent, [spec for spec in request.context.tools if is_external(spec)]),
            request.context,
            cached_judge(request.judge) if request.judge else None,
            request.timeout,
            request.retries,
            request.budget,
        )
        known = self.records.by_key
        answered = {item.key: known[item.key] for item in left if item.key in known and not known[item.key].failed}

        def on_end(record: Record) -> None:
            self.records.add(record)
            on_record(record)

        await plan.run(left, concurrency=concurrency, on_end=on_end, answered=answered)

    @property
    def results(self) -> Results:
        """Return the records so far."""
        known = self.records.by_key
        return Results(
            {name: [known[item.key] for item in found if item.key in known] for name, found in self._items.items()}
        )


async def aevaluate(
    *benchmarks: str,
    context: Context | None = None,
    agent: AgentName = "agentflow",
    subset: str = "",
    file: str | Path | None = None,
    selection: Selection = ALL,
    limit: int | None = None,
    epochs: int = 1,
    judge: Model = "",
    seconds: float | None = None,
    retries: int = 0,
    budget: Budget = UNLIMITED,
    out: str | Path | None = None,
    retry: bool = False,
    concurrency: int = 8,
    on_record: Callable[[Record], None] = lambda record: None,
) -> Results:
    """Evaluate an agent on benchmarks.

    Args:
        benchmarks: Names (`agentflow data list`), files of tasks, or `module:attribute`.
        context: Models, tools and limits; by default the embedded model.
        agent: "agentflow", or a baseline.
        subset: Name of a subset of the benchmark, such as "official".
        file: File of tasks in the format of the one named benchmark, used instead of the benchmark's own.
        selection: Tasks by id, family, position or at random.
        limit: Most tasks of each benchmark, after `selection`.
        epochs: Samples of each task.
        judge: Model that decides undecided answers; one of LangChain's decision models, too.
        seconds: Most seconds of a sample.
        retries: Most repetitions of a sample that fails.
        budget: Most tokens and dollars of a sample.
        out: Folder of the records. The same call resumes there.
        retry: Repeat the samples that failed in an earlier call.
        concurrency: Samples that run at the same time.
        on_record: Called with each record when a sample ends.

    Raises:
        BenchmarkError, ModelError, RunFolderError: See `EvaluationRun.open`.
    """
    request = EvaluationRequest(
        benchmarks,
        context or Context(),
        agent,
        subset,
        Path(file) if file else None,
        selection,
        limit,
        epochs,
        judge,
        seconds,
        retries,
        budget,
    )
    with await EvaluationRun.open(request, Path(out) if out else None) as run:
        await run.run(run.unfinished(retry=retry), concurrency=concurrency, on_record=on_record)
        return run.results


def _blocking(function: Callable[P, Coroutine[Any, Any, Results]]) -> Callable[P, Results]:
    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> Results:
        return asyncio.run(function(*args, **options))

    call.__name__ = call.__qualname__ = function.__name__.removeprefix("a")
    return call


evaluate = _blocking(aevaluate)
"""`aevaluate` as a blocking function, for code without a running event loop."""


def _load(request: EvaluationRequest) -> tuple[dict[str, list[Item]], dict[str, Dataset]]:
    """Return the items of each benchmark and its `Dataset` for the settings. Raises BenchmarkError."""
    if request.file and len(set(request.benchmarks)) > 1:
        raise BenchmarkError("a file holds the questions of one benchmark; name one", code="several_benchmarks")
    loaded: dict[str, list[Item]] = {}
    datasets: dict[str, Dataset] = {}
    for name in dict.fromkeys(request.benchmarks):
        found = benchmark(name)
        if found.name in loaded:
            raise BenchmarkError(
                f"{name} is called '{found.name}', as another of these is; give it another name", code="name_taken"
            )
        chosen, digest = _questions(found, request)
        loaded[found.name] = items(found, chosen, request.epochs)
        datasets[found.name] = Dataset(questions=len(chosen), digest=digest)
    return loaded, datasets


def _questions(found: Benchmark, request: EvaluationRequest) -> tuple[list[Task], str]:
    """Return the selected tasks up to the limit, and the digest of all selected ones. Raises BenchmarkError."""
    tasks = found.tasks(request.subset, request.file)
    if not tasks:
        raise BenchmarkError(
            f"there are no questions of {found.name}" + (f" in {request.file}" if request.file else ""),
            code="no_questions",
        )
    selected = request.selection.of(tasks) if request.selection else tasks
    digest = identity(*(one.id for one in selected))
    return selected[: request.limit], digest


def _checkpoints(context: Context, judge: Model) -> dict[str, str]:
    """Return the hash of the weights of each embedded model, by spec. Raises ModelError."""
    specs = {model for model in (*map(context.model_of, MODULES), judge) if model and isinstance(model, str)}
    models = {spec: load_model(spec, DETERMINISTIC) for spec in specs}
    return {spec: model.fingerprint for spec, model in models.items() if isinstance(model, Fingerprinted)}
