"""The passport of an evaluation: the information that is needed to check its scores and to reproduce them.

All of it is read from the run folder. It contains no text of a benchmark.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from pydantic import BaseModel

from agentflow.evals.benchmarks.catalogue import BENCHMARKS
from agentflow.evals.passport.audit import Audit, audit
from agentflow.evals.record import EvaluationSettings
from agentflow.evals.runs import Cell, Run
from agentflow.graph.context import MODULES, Module
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
    audit: Audit


class Passport(BaseModel):
    """The passport of one evaluation."""

    name: str
    scores: list[BenchmarkScore]
    facts: dict[str, str]
    """What the scores were made with: models, prompts, tools, questions, versions and calls. settings.json has more."""
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
    scores, facts = [_score(run, cell) for cell in run.cells], {name: text for name, text in _facts(run) if text}
    return Passport(name=run.name, scores=scores, facts=facts, doubts=[*_doubts(run)], traces=run.traces)


def own_models(settings: EvaluationSettings) -> dict[str, str]:
    """Return the tools that declare their own language model, with its name."""
    tools = {name: tool.model for made in settings.provenance for name, tool in made.tools.items()}
    return {name: model for name, model in tools.items() if model not in ("", RUN, UNKNOWN)}


def own_pages(benchmark: str) -> Sequence[str]:
    """Return the known pages that contain the benchmark's answers."""
    return BENCHMARKS[benchmark].own_pages if benchmark in BENCHMARKS else ()


def _score(run: Run, cell: Cell) -> BenchmarkScore:
    records = [record for record in run.records if record.benchmark == cell.benchmark]
    audited = audit(records, cell.questions, cell.epochs, own_pages(cell.benchmark), own_models(run.settings))
    known = {name: getattr(cell, name) for name in BenchmarkScore.model_fields if name != "audit"}
    return BenchmarkScore(**known, audit=audited)


def _facts(run: Run) -> Iterator[tuple[str, str]]:
    settings, context = run.settings, run.settings.context
    seconds = min(context.max_seconds, settings.timeout or context.max_seconds)
    yield "agent", f"{settings.agent}, at most {context.max_turns} turns and {seconds:g} s"
    tools = {tool.model for made in settings.provenance for tool in made.tools.values()}
    has = {name for made in settings.provenance for name in made.prompts} | ({"tools"} if RUN in tools else set())
    for module in MODULES:
        yield module, _listed(_module(run, module)) if not has or module in has else ""
    for name, tool in settings.provenance[-1].tools.items() if settings.provenance else ():
        model = {"": "no model", RUN: "the run's model for tools"}.get(tool.model, tool.model)
        yield f"tool {name}", _listed([f"card {tool.card}", tool.prompt and f"prompt {tool.prompt}", model])
    yield "judge", settings.judge or "none"
    digests = [f"{name} {asked.digest}" for name, asked in settings.benchmarks.items()]
    yield "questions", _listed([settings.subset, settings.file, *digests])
    yield "search", f"corpus {context.corpus}, engine {context.search_engine}, cache {context.search_cache}"
    searched = Counter(turn.result.provider for record in run.records for turn in record.turns if turn.result.provider)
    yield "searched", _listed(f"{name} {number:,}" for name, number in searched.most_common())
    for made in settings.provenance:
        after = f" after try {made.before:,}" if made.before else ""
        yield f"made{after}", made.at
        yield f"versions{after}", _listed(f"{name} {version}" for name, version in made.versions.items())
        yield f"files{after}", _listed(f"{name} {content}" for name, content in made.inputs.items())
        yield f"call{after}", made.call


def _listed(parts: Iterable[str]) -> str:
    return ", ".join(filter(None, parts))


def _module(run: Run, module: Module) -> Iterator[str]:
    """Yield the model of a module, the hash of its weights or the names by which servers answered, and its prompt."""
    settings = run.settings
    model, sampling = settings.context.model_name_of(module), settings.context.sampling_of(module)
    yield model
    if weights := settings.checkpoints.get(model, ""):
        yield f"weights {weights}"
    elif served := {name for record in run.records for name in record.usage.modules.get(module, ())}:
        yield f"served as {_listed(sorted(served))}"
    for name in ("temperature", "seed"):
        yield "" if (value := getattr(sampling, name)) is None else f"{name} {value:g}"
    prompt = settings.provenance[-1].prompts.get(module, "") if settings.provenance else ""
    own = settings.agent == "agentflow" and module in settings.context.prompts
    yield prompt and f"prompt {prompt}{' (set by the run)' if own else ''}"


def _doubts(run: Run) -> Iterator[str]:
    """Yield what stands against repeating it: other programs, and tools whose results may change."""
    settings = run.settings
    if not settings.provenance:
        yield "versions, prompts and tools were not recorded"
    elif settings.provenance[0].before:
        yield f"what made the first tries was not recorded: {settings.provenance[0].before:,}"
    for before, after in zip(settings.provenance, settings.provenance[1:], strict=False):
        if different := after.differences(before):
            yield f"another program went on after try {after.before:,}: {', '.join(different)}"
    calls = [turn for record in run.records for turn in record.turns if turn.tool and turn.result.error is None]
    external = Counter(turn.tool for turn in calls if turn.tool not in STANDARD_TOOLS)
    for tool, number in external.most_common():
        yield f"{tool} is a tool that is not AgentFlow's (results: {number:,})"
    if settings.context.search_cache.startswith("replay"):
        return
    live = Counter(turn.tool for turn in calls if turn.tool in STANDARD_TOOLS and turn.tool not in OFFLINE_TOOLS
                   and not (turn.tool == "wikipedia_search" and is_local(turn.result.provider)))  # fmt: skip
    for tool, number in live.most_common():
        yield f"{tool} read the live web (results: {number:,})"
