"""`agentflow prompts`: better prompts by reflection."""

import difflib
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from agentflow.cli.group import FAILED, INTERRUPTED, MISUSED, fail, say
from agentflow.cli.options import Overrides, agent_of, context_of
from agentflow.cli.train import Reward, Tasks, TestTasks
from agentflow.console.rollouts import print_held_out
from agentflow.console.terminal import console
from agentflow.tools.untrusted_text import one_line
from agentflow.version import pip_install

app = typer.Typer()


@app.command(
    epilog="Example: agentflow prompts my_pkg.my_agent:agent --tasks tasks.jsonl --reward my_pkg.my_agent:score "
    "--reflection openai:gpt-4o --nodes answer",
)
def prompts(
    graph: Annotated[str, typer.Argument(metavar="[MODULE:AGENT]", help="By default, AgentFlow itself.")] = "",
    reflection: Annotated[str, typer.Option(metavar="SPEC", help="Model that writes prompts; default: --model.")] = "",
    tasks: Tasks = None,
    reward: Reward = "",
    test: TestTasks = None,
    nodes: Annotated[str, typer.Option(metavar="PATH,...", help="Nodes whose prompts evolve; default: all.")] = "",
    model: Annotated[str, typer.Option(metavar="SPEC", help="Model of every module of AgentFlow.")] = "",
    context: Overrides = None,
    limit: Annotated[int, typer.Option(min=2, help="Most tasks to learn from, half of them for validation.")] = 40,
    held_out: Annotated[int, typer.Option(min=1, help="Most test tasks, run before and after.")] = 20,
    rollouts: Annotated[int, typer.Option(min=1, help="Most rollouts, those of test tasks included.")] = 300,
    timeout: Annotated[float, typer.Option(min=0.001, help="Most seconds of a rollout, else its reward is 0.")] = 300.0,
    concurrency: Annotated[int, typer.Option(min=1, max=256, help="Rollouts at a time.")] = 8,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the choice of tasks and candidates.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder of the search; the same command resumes.")] = Path("runs/prompts"),
) -> None:
    """Evolve the prompts of an agent's nodes by reflection on its rollouts (GEPA); needs an endpoint, and no GPU."""
    try:
        from agentflow.rl.prompts.search import Search
    except ImportError:
        fail(f"this needs the package gepa; install it with: {pip_install('prompts')}", MISUSED)
    from agentflow.graph.models.spec import ModelError
    from agentflow.rl.apps.agent import trainable_agent
    from agentflow.rl.apps.loading import load_app
    from agentflow.rl.apps.trainable import AppError
    from agentflow.rl.policy.node_paths import node_patterns
    from agentflow.rl.prompts import PromptsError, SearchInterrupted

    given = {name: str(value) for name, value in {"tasks": tasks, "test": test, "reward": reward}.items() if value}
    if graph and (model or context):
        fail("--model and --context are AgentFlow's; leave them out for another agent", MISUSED)
    try:
        if graph:
            evolving = load_app(graph, **given)
        else:
            made = context_of({"model": model or "embedded"}, context or ())
            model = made.model_name_of("generator")
            own = trainable_agent("agentflow", agent_of(made), **given)
            evolving = replace(own, context=lambda: made)
        reflection = reflection or model
        if reflection.partition(":")[0] in ("", "embedded", "policy"):
            fail("a model that can write prompts is needed; name it with --reflection", MISUSED)
        limits = {"most": rollouts, "limit": limit, "held_out": held_out, "concurrency": concurrency, "seed": seed}
        search = Search(evolving, node_patterns(nodes), reflection, out, seconds=timeout, on_progress=say, **limits)
        changed, rewards = search.run()
    except (AppError, ModelError, PromptsError) as error:
        fail(str(error), MISUSED)
    except SearchInterrupted as error:
        fail(f"{error}; the same command resumes", FAILED)
    except KeyboardInterrupt:
        say("interrupted; the same command resumes")
        raise typer.Exit(INTERRUPTED) from None
    screen = console()
    for node, texts in changed.items():
        before, after = (text.splitlines() for text in texts)
        for line in difflib.unified_diff(before, after, f"{node} (before)", f"{node} (after)", lineterm=""):
            screen.print(one_line(line), style={"+": "green", "-": "red"}.get(line[0], ""), markup=False)
    print_held_out(screen, rewards)
    told = f"prompts: {search.file}" if changed else "no candidate was better; the prompts stay as they are"
    screen.print(f"{len(search.rollouts)} rollouts; {told}")
