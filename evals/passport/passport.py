"""The passport of an evaluation: what a score needs beside it to be believed and made again. All of it is read off the
evaluation's folder; no text of a benchmark is in it."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from pydantic import BaseModel

from agentflow.evals.benchmarks.catalogue import BENCHMARKS
from agentflow.evals.passport.audit import Audit, audit
from agentflow.evals.passport.provenance import Provenance
from agentflow.evals.record import EvaluationSettings
from agentflow.evals.runs import Cell, Run
from agentflow.graph.context import MODULES, Module, Sampling
from agentflow.graph.models.spec import PROVIDERS
from agentflow.tools.catalogue import OFFLINE_TOOLS, STANDARD_TOOLS
from agentflow.tools.encyclopedia.choice import is_local
from agentflow.tools.tool_model import RUN, UNKNOWN


class Score(BaseModel):
    """What an evaluation came to on one benchmark."""

    benchmark: str
    accuracy: float
    low: float
    high: float
    """95 % interval."""
    number: int
    """Tries of the dataset: the denominator."""
    questions: int
    epochs: int
    ended: int
    failed: int
    undecided: int
    digest: str
    """Of the ids of all questions that there are to be asked."""
    audit: Audit


class ModuleModel(BaseModel):
    """What a module asked."""

    model: str
    """As it was named; "embedded" resolved."""
    served: list[str]
    """What servers called the models that answered."""
    weights: str
    """Hash of an embedded model's; "" where they are a server's."""
    sampling: Sampling
    prompt: str
    """Hash of its system message; "" where it has none, or it was not recorded."""
    own_prompt: bool
    """Whether the run set another one than the module's."""


class Passport(BaseModel):
    """All of it."""

    name: str
    agent: str
    subset: str
    file: str
    max_turns: int
    max_seconds: float
    timeout: float | None
    scores: list[Score]
    modules: dict[Module, ModuleModel]
    judge: str
    """With the hash of its prompts; "" if none."""
    corpus: str
    search_engine: str
    search_cache: str
    embeddings: str
    answered: dict[str, int]
    """Results by what search tools say they come from, a language model behind it included."""
    sandboxes: dict[str, int]
    """Results of python_coder by the sandbox's tier."""
    provenance: list[Provenance]
    doubts: list[str]
    """What stands against repeating it, a line each."""
    traces: str
    """SHA-256 of traces.jsonl."""

    @property
    def flagged(self) -> int:
        """Flagged tries of all benchmarks."""
        return sum(score.audit.tries for score in self.scores)


def passport(run: Run) -> Passport:
    """The passport of an evaluation."""
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


def scores(run: Run) -> list[Score]:
    """Each benchmark's score with its audit."""
    return [_score(run, cell) for cell in run.cells]


def own_models(settings: EvaluationSettings) -> dict[str, str]:
    """The tools that have a language model of their own, as far as they say so, with its name."""
    tools = {name: tool.model for made in settings.provenance for name, tool in made.tools.items()}
    return {name: model for name, model in tools.items() if model not in ("", RUN, UNKNOWN)}


def own_pages(benchmark: str) -> Sequence[str]:
    """The pages that have the benchmark's answers, as far as they are known."""
    return BENCHMARKS[benchmark].own_pages if benchmark in BENCHMARKS else ()


def _score(run: Run, cell: Cell) -> Score:
    records = [record for record in run.records if record.benchmark == cell.benchmark]
    asked = run.settings.benchmarks.get(cell.benchmark)
    facts = ("benchmark", "accuracy", "low", "high", "number", "questions", "epochs", "ended", "failed", "undecided")
    return Score(
        **{name: getattr(cell, name) for name in facts},
        digest=asked.digest if asked else "",
        audit=audit(records, cell.questions, cell.epochs, own_pages(cell.benchmark), own_models(run.settings)),
    )


def _modules(run: Run) -> dict[Module, ModuleModel]:
    """Those that the agent has; all, where that was not recorded."""
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
            model=settings.context.model_of(module),
            served=sorted(served[module]),
            weights=settings.checkpoints.get(settings.context.model_of(module), ""),
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
    late = sum(record.status == "out_of_time" for record in run.records)
    if late:
        yield f"tries that ran out of time, which depends on the machine: {late:,}"
    if missing := settings.number - len(run.records):
        yield f"tries that have not been made yet and count as wrong: {missing:,}"
    if failed := sum(record.failed for record in run.records):
        yield f"tries that broke off and count as wrong: {failed:,}"


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
    """Whether a server has the model; the name of a provider ends where its model's or its server's begins."""
    return re.split("[:@]", spec)[0] in PROVIDERS


def _searches(run: Run) -> Iterator[str]:
    """What was looked up where it may read otherwise another day."""
    calls = [turn for record in run.records for turn in record.turns if turn.result.error is None]
    foreign = Counter(turn.tool for turn in calls if turn.tool and turn.tool not in STANDARD_TOOLS)
    for tool, number in foreign.most_common():
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
