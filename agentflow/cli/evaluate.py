"""`agentflow eval`: evaluate on benchmarks.

It is a group whose default command has no name: an argument that names none of its commands is a benchmark. The other
commands, such as `agentflow eval rescore`, are in files of their own, which `agentflow.cli` adds.
"""

import asyncio
import shlex
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentflow.cli.group import FAILED, CommandGroup, fail, say
from agentflow.cli.observing import observing, prices_of
from agentflow.cli.option_groups import OptionGroup, with_groups
from agentflow.cli.options import AsJson, Prices, RunOptions, Tracing
from agentflow.console.confidence import print_reliability
from agentflow.console.evaluations import print_summaries, results_data
from agentflow.console.progress import EvalProgress
from agentflow.console.terminal import console, counted, print_json
from agentflow.evals.agent_names import AgentName

if TYPE_CHECKING:
    from agentflow.evals.audit import Flag
    from agentflow.evals.benchmarks.selection import Selection
    from agentflow.evals.confidence import Reliability
    from agentflow.evals.evaluate import EvaluationRun, Results
    from agentflow.evals.record import Record
    from agentflow.graph.run.cost import Budget

RUN = "run"
CALL = "agentflow.call"
"""Key of the command line, quoted for a shell."""


class EvalGroup(CommandGroup):
    """Group with a default command, whose help also lists the other commands."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Record the command line, and leave options before the benchmark's name to the command."""
        ctx.meta[CALL] = shlex.join(["agentflow", "eval", *args])
        ctx.ignore_unknown_options = True
        return super().parse_args(ctx, args or [RUN])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the named command, else the default one, which is shown without a name."""
        if args[0] in self.commands and args[0] != RUN:
            return super().resolve_command(ctx, args)
        if near := self._misspelt(args[0]):
            ctx.fail(f"there is no benchmark or command '{args[0]}'; the nearest is agentflow eval {near}")
        return "", self.commands[RUN], args[args[0] == RUN :]

    def _misspelt(self, word: str) -> str | None:
        """Return the command or benchmark that `word` nearly is; None if it is one, or a file."""
        from agentflow.evals.benchmarks.catalogue import BENCHMARKS

        if word in (RUN, *BENCHMARKS) or Path(word).exists():
            return None
        known = [*(name for name in self.commands if name != RUN), *BENCHMARKS]
        return next(iter(get_close_matches(word, known, n=1, cutoff=0.75)), None)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help of the default command, and a line on each of the others."""
        self.commands[RUN].format_help(ctx, formatter)
        for name, command in self.commands.items():
            if name != RUN:
                typer.echo(f" {ctx.command_path} {name:<12}{command.get_short_help_str(80)}")


app = typer.Typer(cls=EvalGroup)


@app.callback()
def evaluation() -> None:
    """Evaluate on benchmarks; rescore, compare and report evaluations."""


@dataclass
class SelectionOptions(OptionGroup):
    """Which questions are asked, and how often."""

    PANEL = "Questions"

    limit: Annotated[int | None, typer.Option(min=1, help="Most questions of each benchmark; default: all.")] = None
    subset: Annotated[str, typer.Option(help="Subset, such as official; an unknown one lists them.")] = ""
    ids: Annotated[
        list[str] | None, typer.Option("--id", metavar="ID", help="Only this question; may be repeated.")
    ] = None
    span: Annotated[
        str, typer.Option("--range", metavar="A:B", help="Only the questions from A, counted from 0, up to B.")
    ] = ""
    family: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only questions of this family; may be repeated.")
    ] = None
    sample: Annotated[int | None, typer.Option(min=1, help="Size of a random sample of the questions.")] = None
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random samples.")] = 0
    file: Annotated[Path | None, typer.Option(help="Questions in the benchmark's format, instead of its own.")] = None
    epochs: Annotated[int, typer.Option(min=1, max=64, help="Tries of each question; accuracy is their mean.")] = 1

    def selection(self) -> "Selection":
        """Return the filters of the questions."""
        from agentflow.evals.benchmarks.selection import Selection

        return Selection(tuple(self.ids or ()), tuple(self.family or ()), self.span, self.sample, seed=self.seed)


@dataclass
class ScoringOptions(OptionGroup):
    """Judge and limits of a try; a try that exceeds a limit counts as wrong."""

    PANEL = "Scoring and limits"

    judge: Annotated[
        str, typer.Option(metavar="SPEC", help="Model that decides where the benchmark's rule cannot.")
    ] = ""
    timeout: Annotated[float | None, typer.Option(min=0.001, help="Most seconds of a try; a longer one is wrong.")] = (
        None
    )
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="Most input and output tokens of a try, else it is wrong.")
    ] = None
    max_cost: Annotated[
        float | None, typer.Option(min=0, help="Most dollars of a try, at --price or as the server reports.")
    ] = None
    price: Prices = None

    def budget(self) -> "Budget":
        """Return the limits of a try."""
        from agentflow.graph.run.cost import Budget

        return Budget(self.max_tokens, self.max_cost, prices_of(self.price))


@dataclass
class RunningOptions(OptionGroup):
    """How the tries are run, and where they are kept."""

    PANEL = "Running and resuming"

    concurrency: Annotated[int, typer.Option(min=1, max=256, help="Questions at a time.")] = 8
    out: Annotated[Path | None, typer.Option(help="Folder of the traces; the same command resumes there.")] = None
    retry: Annotated[bool, typer.Option("--retry", help="Repeat the tries that failed in an earlier run.")] = False
    retry_on_error: Annotated[int, typer.Option(min=0, max=20, help="Most repetitions of a try that fails.")] = 0
    fail_on_error: Annotated[
        bool, typer.Option("--fail-on-error", help="End with exit code 1 at the first try that fails.")
    ] = False


@app.command(RUN, epilog="Example: agentflow eval game24 --limit 50 --out runs/game24")
@with_groups
def evaluate(
    ctx: typer.Context,
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...",
            help="Benchmarks (agentflow data list), a file of questions, or your own by module:attribute.",
        ),
    ],
    options: RunOptions,
    questions: SelectionOptions,
    scoring: ScoringOptions,
    running: RunningOptions,
    agent: Annotated[
        AgentName, typer.Option(help="Agent; all but agentflow are baselines.", rich_help_panel=RunOptions.PANEL)
    ] = "agentflow",
    reliability: Annotated[
        bool,
        typer.Option(
            "--report", help="Also show how the confidence of answers agrees with scores.", rich_help_panel="Output"
        ),
    ] = False,
    tracing: Tracing = None,
    as_json: AsJson = False,
) -> None:
    """Measure accuracy, turns and tool-call errors on benchmarks."""
    from agentflow.evals.evaluate import EvaluationRequest, EvaluationRun
    from agentflow.graph.models.pace import PACE

    request = EvaluationRequest(
        benchmarks=names,
        context=options.build(),
        agent=agent,
        subset=questions.subset,
        file=questions.file,
        selection=questions.selection(),
        limit=questions.limit,
        epochs=questions.epochs,
        judge=scoring.judge,
        timeout=scoring.timeout,
        retries=running.retry_on_error,
        budget=scoring.budget(),
        call=ctx.meta[CALL],
    )
    with observing(tracing), asyncio.run(EvaluationRun.open(request, running.out)) as run:
        for hint in request.hints():
            say(f"hint: {hint}")
        _run(run, running)
    reports = _reliability(run.results) if reliability else {}
    if as_json:
        data = results_data(run.results)
        print_json({name: data[name] | {"reliability": reports.get(name)} for name in data} if reliability else data)
    else:
        figures = {name: (run.results.summary(name), run.results.interval(name)) for name in run.results.records}
        print_summaries(console(), figures, request.budget.prices, gated=run.gated)
        for name, report in reports.items():
            typer.echo(f"\nconfidence of the answers to {name}\n")
            print_reliability(console(), report)
        out = shlex.quote(str(running.out))
        kept = f"look at the tries: agentflow view {out}, or agentflow eval report {out}"
        say(kept if running.out else "the tries are not kept; --out FOLDER keeps them")
    if (waited := PACE.waited) >= 1:
        say(f"note: the model's server was waited for {waited:,.0f} s, as its rate limit asked")
    everything = [record for records in run.results.records.values() for record in records]
    if late := sum(record.status == "out_of_time" for record in everything):
        limit = f"{counted(late, 'run')} reached max_seconds={request.context.max_seconds:g}"
        say(f"note: {limit}; allow more with --context, or ask fewer at a time with --concurrency")
    _check_failures(everything)
    _show_flags(run.flags, running.out)


def _reliability(results: "Results") -> "dict[str, Reliability]":
    """Return the reliability of the confidences of each benchmark's answers, with a note if there are none."""
    from agentflow.evals.confidence import reliability_of

    found = {name: report for name, records in results.records.items() if (report := reliability_of(records))}
    if not found:
        say("note: no answer has a confidence; agentflow calibrate fits it, for --context calibration=FILE")
    return found


class _TryFailed(Exception):
    """A try failed, which ends the evaluation."""


def _run(run: "EvaluationRun", running: RunningOptions) -> None:
    """Run the unfinished items with a progress bar. Ends the command on an error."""
    records = run.records
    left = run.unfinished(retry=running.retry)
    if left and (other := records.differences):
        say(f"note: another version began this evaluation; its settings.json lists both: {', '.join(other)}")
    keys = {item.key for item in left}
    correct = sum(records.by_key[item.key].correct for item in run.items if item.key not in keys)
    unpriced: set[str] = set()
    with EvalProgress(console(stderr=True), len(run.items), len(run.items) - len(left), correct) as progress:

        def on_record(record: "Record") -> None:
            progress.add(correct=record.correct)
            for model in {*run.request.budget.unpriced(record.usage)} - unpriced:
                unpriced.add(model)
                say(f"note: --max-cost does not hold for {model}, whose price is not known; give --price {model}=...")
            if running.fail_on_error and record.failed:
                raise _TryFailed(f"question {record.task.id} failed: {record.error}")

        try:
            asyncio.run(run.run(left, concurrency=running.concurrency, on_record=on_record))
        except _TryFailed as error:
            fail(f"{error}; resume with the same command, --out and --retry", FAILED)
        except KeyboardInterrupt:
            if running.out:
                say(f"the tries are kept; resume with: {run.request.call}")
            raise
        except OSError as error:
            fail(f"the traces could not be written ({error.strerror}); make room and repeat the command", FAILED)


def _check_failures(everything: "list[Record]") -> None:
    """Print a note on failed runs. Ends the command if every run failed."""
    if any(record.failed or record.judge_failed for record in everything):
        say("hint: some runs failed; the same command with --out and --retry repeats them")
    if all(record.failed for record in everything):
        fail("every run failed, for the reasons above", FAILED)


def _show_flags(flags: "list[list[Flag]]", out: Path | None) -> None:
    """Print a note if an audit flags any of the tries."""
    from agentflow.evals import audit

    if reasons := audit.counted(flags):
        why = ", ".join(f"{reason} {number:,}" for reason, number in reasons.items())
        where = f"agentflow eval report {shlex.quote(str(out))}" if out else "agentflow eval report, with --out,"
        say(f"note: {sum(map(bool, flags)):,} of {len(flags):,} tries are flagged ({why}); {where} lists them")
