"""`agentflow try`: a few rollouts of an app, as training would use them."""

import asyncio
from typing import Annotated

import typer

from agentflow.cli.group import FAILED, MISUSED, fail
from agentflow.cli.train import Nodes, Reward, Tasks, TestTasks, app_settings
from agentflow.console.progress import CountProgress
from agentflow.console.rollouts import print_preview, print_rollout
from agentflow.console.terminal import console

app = typer.Typer()


@app.command(
    "try", epilog="Example: agentflow try my_pkg.my_agent:agent --tasks tasks.jsonl --reward my_pkg.my_agent:score"
)
def try_app(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MODULE:AGENT] [options.KEY=VALUE]...", help="What would be trained."),
    ] = None,
    tasks: Tasks = None,
    reward: Reward = "",
    nodes: Nodes = "",
    test: TestTasks = None,
    model: Annotated[
        str, typer.Option(metavar="DIR", help="The policy: a Hugging Face folder, or embedded[:NAME].")
    ] = "embedded",
    limit: Annotated[int, typer.Option(min=1, help="Number of tasks.")] = 4,
    rollouts: Annotated[int, typer.Option(min=1, help="Rollouts of each task.")] = 1,
    temperature: Annotated[float, typer.Option(min=0.01, help="Temperature of sampling.")] = 1.0,
    max_tokens: Annotated[int, typer.Option(min=1, help="Maximum tokens of one reply.")] = 512,
    seconds: Annotated[float, typer.Option(min=1, help="Time limit of one rollout.")] = 300,
) -> None:
    """Run a few rollouts of an agent and show what would be trained: calls and tokens by node, rows, rewards."""
    from agentflow.checks import doctor

    _, works, says = doctor.training()
    if works != "ok":
        fail(f"a rollout {says}", MISUSED)
    from agentflow.rl.apps import load_app
    from agentflow.rl.local_policy import LocalPolicy
    from agentflow.rl.preview import Preview, remedies
    from agentflow.rl.rollout import RolloutStatus, run
    from agentflow.rl.settings import SettingsError, TrainingSettings, compose_settings
    from agentflow.rl.trainable import AppError

    try:
        settings = TrainingSettings.of(compose_settings("atlas-cpu", app_settings(words, tasks, test, reward, nodes)))
        trained = load_app(settings.app, **settings.options)
        graph, asked = trained.built(), trained.tasks("train", limit)
        policy = LocalPolicy(model, temperature=temperature, max_tokens=max_tokens, parser=settings.tool_parser)
    except (SettingsError, AppError) as error:
        fail(str(error), MISUSED)
    out, preview = console(), Preview()

    async def all_rollouts() -> None:
        with CountProgress(out, len(asked) * rollouts, "rollouts") as progress:
            for task in asked:
                for number in range(rollouts):
                    found = await run(trained, graph, task, policy, id=f"{task.id}/{number}", seconds=seconds)
                    preview.trajectories.append(found)
                    print_rollout(out, found, [policy.text(call.response_ids) for call in found.calls])
                    progress.add()

    asyncio.run(all_rollouts())
    print_preview(out, preview, remedies(preview, list(trained.nodes)))
    if RolloutStatus.OK not in preview.statuses:
        raise typer.Exit(FAILED)
