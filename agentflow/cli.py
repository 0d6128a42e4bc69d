"""The command line: solve a question, evaluate on a benchmark, and see what is configured.

Heavy parts (the graph, models, evaluation) are imported inside the commands, so that help comes at once. What a user
can get wrong ends in one line on stderr and an exit status: 0 with an answer, 1 when a run failed, 2 when the call or
the configuration is wrong, 130 when interrupted.
"""

import asyncio
import sys
from contextlib import ExitStack, closing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from agentflow import __version__
from agentflow.console import (
    EvalProgress,
    RunView,
    TrainView,
    answer_text,
    console,
    one_line,
    print_benchmarks,
    print_checks,
    print_compared,
    print_summary,
)

if TYPE_CHECKING:
    from agentflow.evals.journal import Records
    from agentflow.evals.rollout import Finished
    from agentflow.graph.context import Context

FAILED, MISUSED, INTERRUPTED = 1, 2, 130

_WrongCall: type[Any] = typer.BadParameter.__bases__[0]
"""Typer's class of all errors in a call, which it does not export."""


class _Group(TyperGroup):
    """Typer's group, with errors on one line."""

    def main(self, *args: Any, **options: Any) -> NoReturn:
        try:
            code = super().main(*args, **{**options, "standalone_mode": False})
        except _WrongCall as error:
            command = error.ctx.command_path if error.ctx else "agentflow"
            _say(f"error: {error.format_message()} (see {command} --help)")
            code = MISUSED
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _say("interrupted")
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(cls=_Group, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")


class Benchmark(StrEnum):
    """What `agentflow eval` can run."""

    ATLAS = "atlas"


class Split(StrEnum):
    """Which questions of a benchmark."""

    TEST = "test"
    TRAIN = "train"


Model = Annotated[
    str, typer.Option(metavar="SPEC", help="Model of every module: embedded, provider:model, or provider:model@URL.")
]
Planner = Annotated[str | None, typer.Option(metavar="SPEC", help="Model of the planner, if not --model.")]
Tools = Annotated[str | None, typer.Option(metavar="a,b", help="Tools by name; see agentflow tools.")]
MaxTurns = Annotated[int, typer.Option(min=1, max=100, help="Most turns of a run.")]
Corpus = Annotated[
    str, typer.Option(help="What wikipedia_search reads: live, atlas, an index's path; auto: what the planner knows.")
]


def main() -> None:
    """Entry point of the `agentflow` command."""
    app(prog_name="agentflow")


@app.callback(invoke_without_command=True)
def agentflow(
    ctx: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """An agent of planner, executor, verifier and generator. Try: agentflow solve "What is 3 times 7?"."""
    if show_version:
        typer.echo(f"agentflow {__version__}")
    elif ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


@app.command(epilog='Example: agentflow solve "How many feet are 3 yards?" --max-turns 5')
def solve(
    question: Annotated[str, typer.Argument(help="The question, in quotes.")],
    planner: Planner = None,
    model: Model = "embedded",
    tools: Tools = None,
    max_turns: MaxTurns = 10,
    max_seconds: Annotated[float, typer.Option(help="Time for all turns of the run.")] = 300.0,
    corpus: Corpus = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    trace: Annotated[Path | None, typer.Option(help="Append the episode to this file, one line of JSON.")] = None,
) -> None:
    """Answer a question, showing each turn as it happens."""
    from agentflow.evals.episode import append, to_line

    question = _checked_question(question)
    _check_writable(trace)
    context = _context(model, planner, tools, max_turns=max_turns, max_seconds=max_seconds, corpus=corpus)
    with ExitStack() as stack:
        view = None if as_json else stack.enter_context(RunView(console()))
        finished = asyncio.run(_solve(question, context, view))
    episode = finished.episode
    if as_json:
        typer.echo(to_line(episode))
    elif episode.answer.strip():
        console().print(answer_text(episode))
    if trace:
        try:
            append(trace, episode)
        except OSError as error:
            _fail(f"the episode could not be written to {trace} ({error.strerror}); make room and try again", FAILED)
    if not as_json and _beyond_embedded(finished, context):
        _say("hint: the embedded model knows only Atlas; for other questions name a model: --model openai:gpt-4o-mini")
    if finished.failure:
        _fail(str(finished.failure), MISUSED if finished.failure.configuration else FAILED)
    if not episode.answer.strip():
        _fail("the model gave no answer; try again, or another --model", FAILED)


@app.command(
    epilog='Example: agentflow compare "How many feet are 3 yards?" --planner embedded:seed --planner embedded'
)
def compare(
    question: Annotated[str, typer.Argument(help="The question, in quotes.")],
    planner: Annotated[list[str], typer.Option(metavar="SPEC", help="A planner; give two or more.")],
    model: Model = "embedded",
    tools: Tools = None,
    max_turns: MaxTurns = 10,
    corpus: Corpus = "auto",
) -> None:
    """Answer a question with several planners, side by side."""
    question = _checked_question(question)
    if len(set(planner)) < 2:
        _fail("give two planners to compare, each with --planner", MISUSED)
    contexts = {spec: _context(model, spec, tools, max_turns=max_turns, corpus=corpus) for spec in planner}
    with console(stderr=True).status("the planners are at work"):
        found = asyncio.run(_compare(question, contexts))
    print_compared(console(), {spec: finished.episode for spec, finished in found.items()})
    for spec, finished in found.items():
        if finished.failure:
            code = MISUSED if finished.failure.configuration else FAILED
            _fail(f"{spec}: {finished.failure}", code)


async def _compare(question: str, contexts: "dict[str, Context]") -> "dict[str, Finished]":
    finished = await asyncio.gather(*(_solve(question, context, None) for context in contexts.values()))
    return dict(zip(contexts, finished, strict=True))


async def _solve(question: str, context: "Context", view: RunView | None) -> "Finished":
    from agentflow.evals.rollout import Finished, rollout
    from agentflow.graph.agent import graph

    async for event in rollout(graph, question, context):
        if isinstance(event, Finished):
            finished = event
        elif view:
            view.show(event)
    return finished


def _beyond_embedded(finished: "Finished", context: "Context") -> bool:
    """Whether the embedded planner was asked something that is too much for it."""
    from agentflow.rl.micro.outside import REPLY

    if context.model_of("planner").strip().partition(":")[0] != "embedded":
        return False
    return finished.episode.status != "answered" or REPLY in finished.episode.answer


@app.command("eval", epilog="Example: agentflow eval atlas --limit 50 --out runs/seed")
def evaluate(
    benchmark: Annotated[Benchmark, typer.Argument(help="The benchmark.")],
    limit: Annotated[int, typer.Option(min=1, help="How many questions.")] = 200,
    planner: Planner = None,
    model: Model = "embedded",
    max_turns: MaxTurns = 10,
    concurrency: Annotated[int, typer.Option(min=1, max=256, help="Questions at a time.")] = 8,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the episodes; the same call goes on where it left.")
    ] = None,
    split: Annotated[Split, typer.Option(help="Which questions.")] = Split.TEST,
    temperature: Annotated[float, typer.Option(min=0, max=2, help="The planner's; the other modules stay at 0.")] = 0.0,
    samples: Annotated[
        int, typer.Option(min=1, max=64, help="Tries of each question; the accuracy is their mean.")
    ] = 1,
) -> None:
    """Measure accuracy, turns and tool-call errors on a benchmark."""
    from agentflow.evals import runner
    from agentflow.evals.atlas.items import items
    from agentflow.evals.metrics import interval, summarise
    from agentflow.graph.agent import graph
    from agentflow.graph.models import ModelError

    sampling = {"planner": {"temperature": temperature}} if temperature else {}
    context = _context(model, planner, None, max_turns=max_turns, corpus="atlas", sampling=sampling)
    dataset = runner.sampled(items(split.value, limit), samples)
    settings = {"benchmark": benchmark.value, "split": split.value, **context.model_dump(mode="json")}
    with closing(_records(out, settings)) as records:
        remaining = runner.unfinished(dataset, records.by_id.values())
        left = {item.id for item in remaining}
        correct = sum(records.by_id[item.id].correct for item in dataset if item.id not in left)

        with EvalProgress(console(stderr=True), len(dataset), len(dataset) - len(left), correct) as progress:

            def on_end(record: runner.Record) -> None:
                records.add(record)
                progress.add(correct=record.correct)

            try:
                asyncio.run(runner.evaluate(graph, remaining, context, concurrency=concurrency, on_end=on_end))
            except ModelError as error:
                _fail(str(error), MISUSED)
            except OSError as error:
                _fail(f"the episodes could not be written ({error.strerror}); make room and run the same again", FAILED)
    summary = summarise(dataset, records.by_id)
    print_summary(console(), summary, interval(dataset, records.by_id))
    if summary.failures.total() == len(dataset):
        _fail("every run failed, for the reasons above", FAILED)


def _records(out: Path | None, settings: dict[str, Any]) -> "Records":
    from agentflow.evals.journal import Journal, JournalError, Records

    try:
        return Journal(out, settings) if out else Records()
    except JournalError as error:
        _fail(str(error), MISUSED)


@app.command(epilog="Example: agentflow train --preset atlas-cpu steps=10 out=runs/short")
def train(
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Settings to change, as in steps=10.")
    ] = None,
    preset: Annotated[str, typer.Option(metavar="NAME", help="The preset; a wrong name lists them.")] = "atlas-cpu",
    show: Annotated[bool, typer.Option("--show", help="Print the whole configuration and exit.")] = False,
) -> None:
    """Train the nodes of a LangGraph graph in the flow. A run that was stopped goes on from its last checkpoint."""
    from agentflow import doctor

    _, works, says = doctor.training()
    if works != "ok":
        _fail(f"training {says}", MISUSED)
    from agentflow.rl import train as training
    from agentflow.rl.report import write_report
    from agentflow.rl.settings import SettingsError, compose_settings

    try:
        config = compose_settings(preset, overrides or [])
        if show:
            typer.echo(training.as_yaml(config))
            return
        settings = training.prepare(config)
        with TrainView(console(), settings.steps) as view:
            training.train(config, view.show)
    except SettingsError as error:
        _fail(str(error), MISUSED)
    except training.TrainingFailed as error:
        _fail(str(error), FAILED)
    report = write_report(Path(config.out), settings.model_dump())
    typer.echo(f"report: {report}\nnext: agentflow export {config.out} planner")


@app.command(
    epilog="Example: agentflow export runs/atlas-cpu planner && agentflow solve ... --planner embedded:planner"
)
def export(
    checkpoint: Annotated[Path, typer.Argument(help="A training run's folder, or one of its checkpoints.")],
    directory: Annotated[Path, typer.Argument(help="The new folder.")],
) -> None:
    """Write a trained policy as a Hugging Face folder, for vLLM and for --planner embedded:DIRECTORY."""
    from agentflow.rl.export import ExportError
    from agentflow.rl.export import export as write

    try:
        step = write(checkpoint, directory)
    except ExportError as error:
        _fail(str(error), MISUSED)
    typer.echo(f"the policy of step {step} is in {directory}")


data = typer.Typer(cls=_Group)
app.add_typer(data, name="data")


@data.callback(invoke_without_command=True)
def data_sets(ctx: typer.Context) -> None:
    """Get the benchmarks, and build the training set."""
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


@data.command("train", epilog="Example: agentflow data train --out data")
def training_set(
    out: Annotated[Path, typer.Option(help="Folder of train.parquet and sources.json.")] = Path("data"),
) -> None:
    """Build the paper's training set, NQ and DeepMath, from the Hugging Face hub: 182,190 questions."""
    try:
        from agentflow.rl.training_set import TrainingSetError, build
    except ImportError as error:
        _fail(f"needs {error.name}; install it with: pip install 'agentflow-langgraph[train]'", MISUSED)
    try:
        rows = build(out, typer.echo)
    except TrainingSetError as error:
        _fail(str(error), FAILED)
    typer.echo(f"{rows:,} questions are in {out / 'train.parquet'}; their sources in {out / 'sources.json'}")


@data.command("get", epilog="Example: agentflow data get bamboogle")
def get_data(name: Annotated[str, typer.Argument(help="A benchmark, or all; see agentflow data list.")]) -> None:
    """Download a benchmark into the user's cache, or check the one that is there."""
    from agentflow.evals.benchmarks.catalogue import BENCHMARKS, benchmark
    from agentflow.evals.benchmarks.example import BenchmarkError, TokenNeeded

    try:
        wanted = list(BENCHMARKS.values()) if name == "all" else [benchmark(name)]
    except BenchmarkError as error:
        _fail(str(error), MISUSED)
    code = 0
    for one in wanted:
        try:
            typer.echo(f"{one.name}: {one.get()}")
        except BenchmarkError as error:
            _say(f"error: {error}")
            code = max(code, MISUSED if isinstance(error, TokenNeeded) else FAILED)
    raise typer.Exit(code)


@data.command("list", epilog="Example: agentflow data list")
def list_data() -> None:
    """List the benchmarks: what is there, the number of questions, the licence."""
    from agentflow.evals.benchmarks.catalogue import BENCHMARKS
    from agentflow.evals.benchmarks.example import BenchmarkError

    try:
        rows = [(one.name, one.state(), f"{one.size:,}", one.licence, one.title) for one in BENCHMARKS.values()]
    except BenchmarkError as error:
        _fail(str(error), MISUSED)
    print_benchmarks(console(), rows)


@app.command("tools", epilog="Example: agentflow tools --tools google_search,web_search")
def list_tools(tools: Tools = None, corpus: Corpus = "auto") -> None:
    """List the tools: what each is good for, or what it needs before it can be used."""
    from agentflow import doctor
    from agentflow.graph.context import Context
    from agentflow.tools.catalogue import STANDARD_TOOLS

    names = STANDARD_TOOLS if tools is None else _names(tools)
    if unknown := [name for name in names if name not in STANDARD_TOOLS]:
        _fail(f"there is no tool '{unknown[0]}'; the tools are {', '.join(STANDARD_TOOLS)}", MISUSED)
    print_checks(console(), doctor.tools(names, Context(corpus=corpus).corpus_name))


@app.command("graph", epilog="Example: agentflow graph > agentflow.mmd")
def draw_graph() -> None:
    """Print the agent's graph as mermaid text."""
    from agentflow.graph.agent import graph

    typer.echo(graph.get_graph().draw_mermaid().rstrip())


@app.command("doctor", epilog="Example: agentflow doctor --model vllm:my-model@http://127.0.0.1:8000/v1")
def check(
    model: Annotated[str | None, typer.Option(metavar="SPEC", help="Also ask for this model at its server.")] = None,
) -> None:
    """Check what is installed, configured and reachable; exits with 0 if the embedded model (and SPEC) works."""
    from agentflow import doctor as checks
    from agentflow.tools.catalogue import STANDARD_TOOLS

    needed = [*asyncio.run(checks.embedded()), *([checks.model(model)] if model else [])]
    tools = checks.tools(STANDARD_TOOLS, "live")
    print_checks(console(), [*checks.versions(), *needed, *tools, checks.training(), *checks.keys()])
    if any(works == "no" for _, works, _ in needed):
        _fail("something that is needed does not work: see the lines marked 'no'", FAILED)


def _context(model: str, planner: str | None, tools: str | None, **limits: Any) -> "Context":
    """The run's settings, checked as far as they can be before it starts: names, keys, checkpoints."""
    from pydantic import ValidationError

    from agentflow.graph.context import DEFAULT_TOOLS, Context
    from agentflow.tools.catalogue import STANDARD_TOOLS, availability

    names = list(DEFAULT_TOOLS if tools is None else _names(tools))
    models = {} if planner is None else {"planner": planner}
    try:
        context = Context.model_validate({"model": model, "models": models, "tools": names, **limits})
    except ValidationError as error:
        first = error.errors()[0]
        _fail(f"--{str(first['loc'][0]).replace('_', '-')}: {first['msg'].lower()}", MISUSED)
    for name in names:
        if problem := availability(name, context.corpus_name):
            _fail(f"{name} cannot be used: {problem}" if name in STANDARD_TOOLS else problem, MISUSED)
    _load_models(context)
    return context


def _load_models(context: "Context") -> None:
    from agentflow.graph.context import MODULES
    from agentflow.graph.models import ModelError, load_model

    try:
        for module in MODULES:
            load_model(context.model_of(module), context.sampling_of(module))
    except ModelError as error:
        _fail(str(error), MISUSED if error.configuration else FAILED)


def _names(tools: str) -> tuple[str, ...]:
    """The names in a list with commas, each once."""
    if names := tuple(dict.fromkeys(name.strip() for name in tools.split(",") if name.strip())):
        return names
    _fail("--tools names no tool; see agentflow tools", MISUSED)


def _checked_question(question: str) -> str:
    if not question.strip():
        _fail("the question is empty; write it in quotes after solve", MISUSED)
    if not question.isascii() and question.encode("utf-8", "replace").decode() != question:
        _fail("the question is not valid UTF-8; set the terminal to UTF-8", MISUSED)
    return question.strip()


def _check_writable(trace: Path | None) -> None:
    if trace is None:
        return
    try:
        trace.open("ab").close()
    except OSError as error:
        _fail(f"cannot write to {trace} ({error.strerror}); choose another --trace", MISUSED)


def _say(line: str) -> None:
    typer.echo(one_line(line), err=True)


def _fail(problem: str, code: int) -> NoReturn:
    _say(f"error: {problem}")
    raise typer.Exit(code)
