"""The passport of an evaluation: the information that is needed to check its scores and to reproduce them.

All of it is read from the run folder. It contains no text of a benchmark.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from pydantic import BaseModel

from agentflow.evals.benchmarks.catalogue import BENCHMARKS
from agentflow.evals.passport.audit import Audit, audit
from agentflow.evals.provenance import Provenance
from agentflow.evals.record import EvaluationSettings
from agentflow.evals.runs import Cell, Run
from agentflow.graph.context import MODULES, Module, Sampling
from agentflow.graph.models.spec import PROVIDERS
from agentflow.graph.run.cost import Budget
from agentflow.tools.catalogue import OFFLINE_TOOLS, STANDARD_TOOLS
from agentflow.tools.encyclopedia.choice import is_local
from agentflow.tools.tool_model import RUN, UNKNOWN


class BenchmarkScore(BaseModel):
    """The score of an evaluation on one benchmark."""

    benchmark: str
    accuracy: float
    low: float
    high: float
    """95 % interval."""
    number: int
    """Samples of the dataset: the denominator."""
    questions: int
    epochs: int
    ended: int
    failed: int
    undecided: int
    digest: str
    """Hash of the ids of all selected tasks, also of those beyond the run's limit."""
    audit: Audit


class ModuleModel(BaseModel):
    """The model and prompt of a module."""

    model: str
    """The model as configured, with "embedded" resolved."""
    served: list[str]
    """Names that servers reported for the models that answered."""
    weights: str
    """Hash of the weights of an embedded model; "" for a server's model."""
    sampling: Sampling
    prompt: str
    """Hash of the system message; "" if there is none or it was not recorded."""
    own_prompt: bool
    """True if the run replaced the module's default prompt."""


class Passport(BaseModel):
    """The passport of one evaluation."""

    name: str
    agent: str
    subset: str
    file: str
    max_turns: int
    max_seconds: float
    timeout: float | None
    scores: list[BenchmarkScore]
    modules: dict[Module, ModuleModel]
    judge: str
    """The judge's model with the hash of its prompts; "" if there is no judge."""
    corpus: str
    search_engine: str
    search_cache: str
    embeddings: str
    answered: dict[str, int]
    """Number of results by the source that search tools report, which includes a language model behind it."""
    sandboxes: dict[str, int]
    """Number of python_coder results by tier of the sandbox."""
    provenance: list[Provenance]
    doubts: list[str]
    """Reasons why the evaluation may not be reproducible, a line each."""
    traces: str
    """SHA-256 of traces.jsonl."""

    @property
    def flagged(self) -> int:
        """Return the number of flagged samples of all benchmarks."""
        return sum(score.audit.tries for score in self.scores)


def passport(run: Run) -> Passport:
    """Return the passport of an evaluation."""
    settings, context = run.settings, run.settings.context
    results = [turn.result for record in run.records for turn in record.turns]
    return Passport(
        name=run.name,
        agent=settings.agent,
        subset=settings.subset,
        file=settings.file,
        max_turns=context.max_turns,
        max_seconds=context.max_seconds,
        timeout=settings.timeout,
        scores=scores(run),
        modules=_modules(run),
        judge=settings.judge,
        corpus=context.corpus,
        search_engine=context.search_engine,
        search_cache=context.search_cache,
        embeddings=context.embeddings,
        answered=dict(Counter(result.provider for result in results if result.provider).most_common()),
        sandboxes=dict(Counter(result.sandbox for result in results if result.sandbox).most_common()),
        provenance=settings.provenance,
        doubts=[*_doubts(run)],
        traces=run.traces,
    )


def scores(run: Run) -> list[BenchmarkScore]:
    """Return each benchmark's score with its audit."""
    return [_score(run, cell) for cell in run.cells]


def own_models(settings: EvaluationSettings) -> dict[str, str]:
    """Return the tools that declare their own language model, with its name."""
    tools = {name: tool.model for made in settings.provenance for name, tool in made.tools.items()}
    return {name: model for name, model in tools.items() if model not in ("", RUN, UNKNOWN)}


def own_pages(benchmark: str) -> Sequence[str]:
    """Return the known pages that contain the benchmark's answers."""
    return BENCHMARKS[benchmark].own_pages if benchmark in BENCHMARKS else ()


def _score(run: Run, cell: Cell) -> BenchmarkScore:
    records = [record for record in run.records if record.benchmark == cell.benchmark]
    asked = run.settings.benchmarks.get(cell.benchmark)
    facts = ("benchmark", "accuracy", "low", "high", "number", "questions", "epochs", "ended", "failed", "undecided")
    return BenchmarkScore(
        **{name: getattr(cell, name) for name in facts},
        digest=asked.digest if asked else "",
        audit=audit(records, cell.questions, cell.epochs, own_pages(cell.benchmark), own_models(run.settings)),
    )


def _modules(run: Run) -> dict[Module, ModuleModel]:
    """Return the modules that the agent has, or all modules if the run did not record them."""
    settings, made = run.settings, run.settings.provenance
    own = settings.context.prompts if settings.agent == "agentflow" else {}
    asks = {tool.model for one in made for tool in one.tools.values()}
    has = {name for one in made for name in one.prompts} | ({"tools"} if RUN in asks else set()) or {*MODULES}
    served: dict[str, set[str]] = {module: set() for module in MODULES}
    for record in run.records:
        for module, models in record.usage.modules.items():
            served.setdefault(module, set()).update(models)
    return {
        module: ModuleModel(
            model=settings.context.model_name_of(module),
            served=sorted(served[module]),
            weights=settings.checkpoints.get(settings.context.model_name_of(module), ""),
            sampling=settings.context.sampling_of(module),
            prompt=made[-1].prompts.get(module, "") if made else "",
            own_prompt=module in own,
        )
        for module in MODULES
        if module in has
    }


def _doubts(run: Run) -> Iterator[str]:
    settings, modules = run.settings, _modules(run)
    if not settings.provenance:
        yield "versions, prompts and tools were not recorded: an earlier version made it"
    elif settings.provenance[0].before:
        yield f"what made the first tries was not recorded: {settings.provenance[0].before:,}"
    for before, after in zip(settings.provenance, settings.provenance[1:], strict=False):
        if different := after.differences(before):
            yield f"another program went on after try {after.before:,}: {', '.join(different)}"
    judge = settings.judge.partition(" (prompts ")[0]
    for spec in dict.fromkeys([*(module.model for module in modules.values()), *([judge] if judge else [])]):
        if _is_served(spec):
            yield f"{spec} is a server's: nothing tells whether its weights are the same another day"
    for name, module in modules.items():
        yield from _chance(name, module)
    yield from _searches(run)
    budget = Budget(dollars=settings.max_cost, prices=settings.prices)
    for model in dict.fromkeys(model for record in run.records for model in budget.unpriced(record.usage)):
        yield f"the limit of dollars does not hold for {model}, whose price is not known"
    late = sum(record.status == "out_of_time" for record in run.records)
    if late:
        yield f"tries that ran out of time, which depends on the machine: {late:,}"
    if missing := settings.number - len(run.records):
        yield f"tries that have not been made yet and count as wrong: {missing:,}"
    if failed := sum(record.failed for record in run.records):
        yield f"failed tries, which count as wrong: {failed:,}"


def _chance(name: str, module: ModuleModel) -> Iterator[str]:
    sampling = module.sampling
    if not sampling.temperature:
        return
    drawn = f"the {name} draws its tokens (temperature {sampling.temperature:g})"
    if sampling.seed is None:
        yield f"{drawn}, without a seed"
    elif _is_served(module.model):
        yield f"{drawn}; its server was asked for seed {sampling.seed}, and need not keep to it"


def _is_served(spec: str) -> bool:
    """Return whether a server has the model: the part of `spec` before the first ":" or "@" names a provider."""
    return re.split("[:@]", spec)[0] in PROVIDERS


def _searches(run: Run) -> Iterator[str]:
    """Yield a line for each tool whose results may change: tools that are not AgentFlow's, and live web searches."""
    calls = [turn for record in run.records for turn in record.turns if turn.result.error is None]
    external = Counter(turn.tool for turn in calls if turn.tool and turn.tool not in STANDARD_TOOLS)
    for tool, number in external.most_common():
        yield f"{tool} is a tool that is not AgentFlow's (results: {number:,})"
    if run.settings.context.search_cache.startswith("replay"):
        return
    live = Counter(
        turn.tool
        for turn in calls
        if turn.tool in STANDARD_TOOLS
        and turn.tool not in OFFLINE_TOOLS
        and not (turn.tool == "wikipedia_search" and is_local(turn.result.provider))
    )
    for tool, number in live.most_common():
        yield f"{tool} read the live web (results: {number:,})"
