"""`agentflow prompts`: better prompts by reflection."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentflow.cli.group import FAILED, INTERRUPTED, MISUSED, fail, say
from agentflow.cli.observing import prices_of
from agentflow.cli.options import ContextFile, MaxTurns, Planner, Prices, Tools, agent_of, context_of
from agentflow.cli.panels import PanelledCommand
from agentflow.cli.train import Reward, Tasks, TestTasks
from agentflow.console.evolved import SearchView, print_found
from agentflow.console.terminal import console

if TYPE_CHECKING:
    from agentflow.rl.prompts.search import Request
    from agentflow.rl.trainable import Trainable

CALL = "agentflow.call"
"""Key of the command line, quoted for a shell."""


class ResumableCommand(PanelledCommand):
    """A command that can print its own call."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Record the command line."""
        ctx.meta[CALL] = shlex.join(["agentflow", str(ctx.info_name), *args])
        return super().parse_args(ctx, args)


app = typer.Typer()


@app.command(
    cls=ResumableCommand,
    epilog="Example: agentflow prompts --tasks tasks.jsonl --model openai:gpt-4o-mini --reflection openai:gpt-4o "
    "--nodes planner,generator\n\n"
    "Example: agentflow prompts my_pkg.my_agent:agent --tasks tasks.jsonl --reward my_pkg.my_agent:score "
    "--reflection openai:gpt-4o",
)
def prompts(
    ctx: typer.Context,
    graph: Annotated[
        str, typer.Argument(metavar="[MODULE:AGENT]", help="Whose prompts evolve; by default, AgentFlow's.")
    ] = "",
    tasks: Tasks = None,
    reward: Reward = "",
    test: TestTasks = None,
    nodes: Annotated[
        str, typer.Option(metavar="PATH,...", help="Nodes whose prompts evolve, as in planner,generator; default: all.")
    ] = "",
    reflection: Annotated[
        str, typer.Option(metavar="SPEC", help="Model that writes prompts; by default, the agent's.")
    ] = "",
    model: Annotated[
        str, typer.Option(metavar="SPEC", help="Model of every module of AgentFlow: provider:model, or with @URL.")
    ] = "",
    planner: Planner = None,
    tools: Tools = None,
    context_file: ContextFile = None,
    max_turns: MaxTurns = 10,
    limit: Annotated[int, typer.Option(min=2, help="Most tasks to learn from, half of them for validation.")] = 40,
    held_out: Annotated[int, typer.Option(min=1, help="Most test tasks, run before and after.")] = 20,
    rollouts: Annotated[int, typer.Option(min=1, help="Most rollouts, those of test tasks included.")] = 300,
    max_cost: Annotated[
        float | None, typer.Option(min=0, help="Most dollars in all, at --price or as the server reports.")
    ] = None,
    price: Prices = None,
    timeout: Annotated[float, typer.Option(min=0.001, help="Most seconds of a rollout, else its reward is 0.")] = 300.0,
    concurrency: Annotated[int, typer.Option(min=1, max=256, help="Rollouts at a time.")] = 8,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the choice of tasks and candidates.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder of the search; the same command resumes there.")] = Path(
        "runs/prompts"
    ),
) -> None:
    """Evolve the prompts of an agent's nodes by reflection on its rollouts (GEPA); needs an endpoint, and no GPU."""
    try:
        import gepa  # noqa: F401
    except ImportError:
        fail("this needs the package gepa; install it with: pip install 'agentflow-langgraph[prompts]'", MISUSED)
    from agentflow.graph.run.cost import Budget
    from agentflow.rl.node_paths import node_patterns
    from agentflow.rl.prompts.search import Request
    from agentflow.rl.trainable import AppError

    files = {"tasks": str(tasks or ""), "test": str(test or ""), "reward": reward}
    given = {name: value for name, value in files.items() if value}
    try:
        if graph:
            if planner or tools or context_file:
                fail("--planner, --tools and --context are AgentFlow's; leave them out for another agent", MISUSED)
            trained = _named(graph, given, model)
        else:
            trained = _own(given, context_of(model or "embedded", planner, tools, context_file, max_turns=max_turns))
    except AppError as error:
        fail(str(error), MISUSED)
    budget = Budget(dollars=max_cost, prices=prices_of(price))
    _run(
        Request(
            app=trained,
            nodes=node_patterns(nodes),
            reflection=reflection or _own_model(trained, model),
            out=out,
            rollouts=rollouts,
            budget=budget,
            limit=limit,
            held_out=held_out,
            seconds=timeout,
            concurrency=concurrency,
            seed=seed,
        ),
        ctx.meta[CALL],
    )


def _named(name: str, options: dict[str, str], model: str) -> "Trainable":
    """Return a named app; its modules use `model`, if it is AgentFlow. Raises AppError."""
    from agentflow.graph.context import Context
    from agentflow.rl.apps import load_app

    found = load_app(name, **options)
    if not model:
        return found
    context = found.context()
    if not isinstance(context, Context):
        fail(f"--model is for AgentFlow; {name} calls models of its own", MISUSED)
    changed = context.model_copy(update={"model": model, "models": {}})
    return replace(found, context=lambda: changed)


def _own(options: dict[str, str], context: Any) -> "Trainable":
    """Return AgentFlow as an app. Raises AppError."""
    from agentflow.rl.agent import trainable_agent
    from agentflow.rl.planner import trace

    found = trainable_agent("agentflow", agent_of(context), **options)
    return replace(found, context=lambda: context, trace=trace)


def _own_model(trained: "Trainable", model: str) -> str:
    """Return the model of an agent, for reflection."""
    from agentflow.graph.context import Context

    context = trained.context()
    found = model or (context.model_name_of("generator") if isinstance(context, Context) else "")
    if not found or found.partition(":")[0] in ("embedded", "policy"):
        fail("a model that can write prompts is needed; name it with --reflection", MISUSED)
    return found


def _run(request: "Request", call: str) -> None:
    """Search and print what was found. Ends the command on an error."""
    from agentflow.rl.prompts.errors import PromptsError, SearchInterrupted
    from agentflow.rl.prompts.search import search
    from agentflow.rl.trainable import AppError

    try:
        with SearchView(console(stderr=True), request.rollouts) as view:
            found = search(request, view.show)
    except (AppError, PromptsError) as error:
        fail(str(error), MISUSED)
    except SearchInterrupted as error:
        fail(f"{error}; resume with: {call}", FAILED)
    except KeyboardInterrupt:
        say(f"interrupted; resume with: {call}")
        raise typer.Exit(INTERRUPTED) from None
    for name in sorted(found.unpriced):
        say(f"note: --max-cost does not hold for {name}, whose price is not known; give --price {name}=...")
    print_found(console(), found)
