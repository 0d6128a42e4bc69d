"""`agentflow eval`: benchmarks, and what is said about their results.

It is a group whose usual command needs no name: what is none of its commands is a benchmark. The others are
`agentflow eval judge` and so on, each in a file of its own, which `agentflow.cli` adds.
"""

import asyncio
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from agentflow.cli.group import FAILED, MISUSED, CommandGroup, fail, say
from agentflow.cli.observing import observing, prices_of
from agentflow.cli.options import (
    Corpus,
    Log,
    MaxTurns,
    Model,
    Planner,
    Prices,
    SearchCache,
    SearchEngine,
    Tools,
    Tracing,
    TracingContent,
    context_of,
)
from agentflow.console.evaluations import print_summaries
from agentflow.console.progress import EvalProgress
from agentflow.console.terminal import console

if TYPE_CHECKING:
    from agentflow.evals.benchmarks.selection import Selection
    from agentflow.evals.cost import Price
    from agentflow.evals.evaluate import EvaluationRequest, EvaluationRun, Results
    from agentflow.evals.record import EvaluationSettings, Record

RUN = "run"
CALL = "agentflow.call"
"""Key of what the user wrote, as a shell reads it."""
SHIPPED = ("embedded:seed", "embedded:trained")
AgentName = Literal["direct", "react", "team", "agentflow"]
"""As `agentflow.evals.agents` has them."""


class EvalGroup(CommandGroup):
    """Evaluates when no command is named; its help is that of evaluating, and names the other commands."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Leaves options before the benchmark's name to the command, and keeps the words of the call."""
        ctx.meta[CALL] = shlex.join(["agentflow", "eval", *args])
        ctx.ignore_unknown_options = True
        return super().parse_args(ctx, args or [RUN])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is named, else the usual one, which has no name where a user sees it."""
        if args[0] in self.commands and args[0] != RUN:
            return super().resolve_command(ctx, args)
        return "", self.commands[RUN], args[args[0] == RUN :]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The help of the usual command, and a line on each of the others."""
        self.commands[RUN].format_help(ctx, formatter)
        for name, command in self.commands.items():
            if name != RUN:
                typer.echo(f" {ctx.command_path} {name:<12}{command.get_short_help_str(80)}")


app = typer.Typer(cls=EvalGroup)


@app.callback()
def evaluation() -> None:
    """Evaluate on benchmarks, and judge, compare and report what came of it."""


@app.command(RUN, epilog="Example: agentflow eval game24 --limit 50 --out runs/game24")
def evaluate(
    ctx: typer.Context,
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...",
            help="Benchmarks (agentflow data list), a file of questions, or your own by module:attribute.",
        ),
    ],
    planner: Planner = None,
    model: Model = "embedded",
    limit: Annotated[int | None, typer.Option(min=1, help="How many questions of each; without it, all.")] = None,
    subset: Annotated[str, typer.Option(help="Such as official; a wrong one lists them.")] = "",
    ids: Annotated[
        list[str] | None, typer.Option("--id", metavar="ID", help="Only this question; may be repeated.")
    ] = None,
    span: Annotated[
        str, typer.Option("--range", metavar="A:B", help="Only the questions from A, counted from 0, up to B.")
    ] = "",
    family: Annotated[list[str] | None, typer.Option(help="Only questions of this family; may be repeated.")] = None,
    sample: Annotated[int | None, typer.Option(min=1, help="So many questions, drawn at random.")] = None,
    per_family: Annotated[int | None, typer.Option(min=1, help="So many of each family, drawn at random.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of what is drawn.")] = 0,
    file: Annotated[Path | None, typer.Option(help="Questions in the benchmark's form, instead of its own.")] = None,
    epochs: Annotated[int, typer.Option(min=1, max=64, help="Tries of each question; accuracy is their mean.")] = 1,
    agent: Annotated[AgentName, typer.Option(help="What answers; all but agentflow are baselines.")] = "agentflow",
    max_turns: MaxTurns = 10,
    tools: Tools = None,
    corpus: Corpus = "auto",
    temperature: Annotated[float, typer.Option(min=0, max=2, help="The planner's; the other modules stay at 0.")] = 0.0,
    judge: Annotated[
        str | None, typer.Option(metavar="SPEC", help="Model that is asked where a benchmark's rule cannot tell.")
    ] = None,
    timeout: Annotated[float | None, typer.Option(min=0.001, help="Most seconds of a try; it is wrong then.")] = None,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="Most tokens of a try, read and written; it is wrong then.")
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option(min=0, help="Most dollars of a try, at --price or as the server reports.")
    ] = None,
    price: Prices = None,
    concurrency: Annotated[int, typer.Option(min=1, max=256, help="Questions at a time.")] = 8,
    out: Annotated[Path | None, typer.Option(help="Folder of the traces; the same call goes on where it left.")] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Try again what broke off in an earlier call.")] = False,
    retry_on_error: Annotated[
        int, typer.Option(min=0, max=20, help="How often a try that breaks off is begun again.")
    ] = 0,
    fail_on_error: Annotated[
        bool, typer.Option("--fail-on-error", help="End with exit code 1 at the first try that breaks off.")
    ] = False,
    search_engine: SearchEngine = "auto",
    search_cache: SearchCache = "off",
    tracing: Tracing = None,
    tracing_content: TracingContent = False,
    log: Log = None,
) -> None:
    """Measure accuracy, turns and tool-call errors on benchmarks."""
    from agentflow.evals.cost import Budget
    from agentflow.evals.evaluate import EvaluationRequest
    from agentflow.graph.context import MODULES

    prices = prices_of(price)
    sampling = {"planner": {"temperature": temperature}} if temperature else {}
    search = {"corpus": corpus, "search_engine": search_engine, "search_cache": search_cache}
    context = context_of(model, planner, tools, max_turns=max_turns, sampling=sampling, **search)
    if agent != "agentflow" and context.model_of("planner") in SHIPPED:
        say(f"hint: the embedded model knows only AgentFlow's own prompts; for --agent {agent} name another --model")
    if judge and judge in {context.model_of(module) for module in MODULES}:
        say("hint: the judge is the model that answers; another one is less partial")
    request = EvaluationRequest(
        names,
        context,
        agent,
        subset,
        file,
        _selection(ids, span, family, sample, per_family, seed),
        limit,
        epochs,
        judge or "",
        timeout,
        retry_on_error,
        Budget(max_tokens, max_cost, prices),
        ctx.meta[CALL],
    )
    with observing(tracing, log, content=tracing_content), _opened(request, out) as run:
        _run(run, concurrency, retry=retry, fail_on_error=fail_on_error)
    _show(run.results, prices, gated={item.benchmark.name for item in run.items if item.benchmark.gated})
    _warn_of_flags(run.results.records, run.settings, out)


def _selection(
    ids: list[str] | None, span: str, family: list[str] | None, sample: int | None, per_family: int | None, seed: int
) -> "Selection":
    from agentflow.evals.benchmarks.selection import Selection, span_of

    try:
        positions = span_of(span) if span else (0, None)
    except ValueError as error:
        fail(str(error), MISUSED)
    return Selection(tuple(ids or ()), tuple(family or ()), positions, sample, per_family, seed)


def _opened(request: "EvaluationRequest", out: Path | None) -> "EvaluationRun":
    from agentflow.evals.benchmarks.errors import BenchmarkError
    from agentflow.evals.evaluate import EvaluationRun
    from agentflow.evals.results_store import ResultsError
    from agentflow.graph.models.spec import ModelError

    try:
        return asyncio.run(EvaluationRun.open(request, out))
    except (BenchmarkError, ModelError, ResultsError) as error:
        fail(str(error), MISUSED)


class _BrokeOff(Exception):
    """A try broke off, and that ends the evaluation."""


def _run(run: "EvaluationRun", concurrency: int, *, retry: bool, fail_on_error: bool) -> None:
    """Runs what is left, with a bar. Ends the command when it cannot go on."""
    from agentflow.graph.models.spec import ModelError

    records = run.records
    left = run.unfinished(retry=retry)
    if left and (other := records.differences):
        say(f"note: another program began this evaluation; both will be in its passport: {', '.join(other)}")
    elif changed := records.changed_files:
        say(f"note: these tries were made with other files, and are not run again: {', '.join(changed)}")
    keys = {item.key for item in left}
    correct = sum(records.by_key[item.key].correct for item in run.items if item.key not in keys)
    unpriced: set[str] = set()
    with EvalProgress(console(stderr=True), len(run.items), len(run.items) - len(left), correct) as progress:

        def on_record(record: "Record") -> None:
            progress.add(correct=record.correct)
            for model in {*run.request.budget.unpriced(record.usage)} - unpriced:
                unpriced.add(model)
                say(f"note: --max-cost does not hold for {model}, whose price is not known; give --price {model}=...")
            if fail_on_error and record.failed:
                raise _BrokeOff(f"question {record.task.id} broke off: {record.error}")

        try:
            asyncio.run(run.run(left, concurrency=concurrency, on_record=on_record))
        except ModelError as error:
            fail(str(error), MISUSED)
        except _BrokeOff as error:
            fail(f"{error}; the same call with --out and --retry goes on", FAILED)
        except OSError as error:
            fail(f"the traces could not be written ({error.strerror}); make room and run the same again", FAILED)


def _show(results: "Results", prices: "dict[str, Price]", gated: set[str]) -> None:
    """The figures of each benchmark. Fails if not one run worked."""
    print_summaries(
        console(),
        {name: (results.summary(name), results.interval(name)) for name in results.records},
        prices,
        gated=gated,
    )
    everything = [record for records in results.records.values() for record in records]
    if any(record.failed or record.judge_failed for record in everything):
        say("hint: some runs broke off; the same call with --out and --retry tries those again")
    if all(record.failed for record in everything):
        fail("every run failed, for the reasons above", FAILED)


def _warn_of_flags(ended: "dict[str, list[Record]]", settings: "EvaluationSettings", out: Path | None) -> None:
    """Says it where an audit of the tries has something to look at."""
    from agentflow.evals.passport.audit import counted, flags_of
    from agentflow.evals.passport.passport import own_models, own_pages

    models = own_models(settings)
    found = [flags_of(record, own_pages(name), models) for name, records in ended.items() for record in records]
    if reasons := counted(found):
        why = ", ".join(f"{reason} {number:,}" for reason, number in reasons.items())
        where = f"agentflow eval passport {out}" if out else "agentflow eval passport, with --out,"
        say(f"note: {sum(map(bool, found)):,} of {len(found):,} tries are flagged ({why}); {where} lists them")
