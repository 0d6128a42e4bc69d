"""`agentflow try`: a few rollouts of an app, as training would use them."""

import asyncio
from dataclasses import replace
from typing import Annotated, Any

import typer

from agentflow.cli.group import FAILED, fail, say
from agentflow.cli.option_groups import with_groups
from agentflow.cli.options import check_training
from agentflow.cli.train import AppOptions
from agentflow.console.progress import CountProgress
from agentflow.console.rollouts import print_preview, print_rollout
from agentflow.console.terminal import console

app = typer.Typer()


@app.command(
    "try", epilog="Example: agentflow try my_pkg.my_agent:agent --tasks tasks.jsonl --reward my_pkg.my_agent:score"
)
@with_groups
def try_app(
    options: AppOptions,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MODULE:AGENT] [KEY=VALUE]...", help="What would be trained, and settings to change."),
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            metavar="DIR|SPEC",
            help="Who plays: a model folder, embedded[:NAME], provider:model[@URL], own (the agent's) or scripted.",
        ),
    ] = "",
    preset: Annotated[
        str, typer.Option(metavar="NAME", help="The preset of the training; a wrong name lists them.")
    ] = "atlas-cpu",
    limit: Annotated[int, typer.Option(min=1, help="Number of tasks.")] = 4,
    rollouts: Annotated[int, typer.Option(min=1, help="Rollouts of each task.")] = 1,
) -> None:
    """Run a few rollouts of an agent and show what would be trained: calls and tokens by node, rows, rewards."""
    check_training("a rollout")
    from agentflow.rl.apps.loading import load_app
    from agentflow.rl.apps.trainable import AppError
    from agentflow.rl.launch.preview import Preview, notes, obstacles, play
    from agentflow.rl.launch.served_policy import SCRIPTED, is_served, trial_policy
    from agentflow.rl.rollout.rollout import Rollout
    from agentflow.rl.settings import TrainingSettings, compose_settings

    chosen = options.settings(words or [])
    settings = TrainingSettings.of(compose_settings(preset, chosen))
    trained = load_app(settings.app, **settings.options)
    graph, asked = trained.built(), trained.tasks("train", limit)
    out = console()
    limits: Any = {"seconds": settings.rollout_seconds, "count_as_zero": settings.flow.count_as_zero}

    def played(model: str) -> Preview:
        policy, remark = trial_policy(model, settings)
        if remark:
            say(f"note: {remark}")
        with CountProgress(out, "rollouts", len(asked) * rollouts) as progress:

            def show(found: Rollout) -> None:
                decode = policy.format.tokenizer.decode
                texts = [decode(call.response_ids, skip_special_tokens=False) for call in found.calls]
                print_rollout(out, found, texts)
                progress.add()

            how: Any = {"rollouts": rollouts, "at_once": is_served(model), "on_rollout": show}
            found = asyncio.run(play(trained, graph, asked, policy, **limits, **how))
            return replace(found, scripted=model == SCRIPTED)

    try:
        preview = played(model)
    except AppError as error:
        if error.code != "no_tools" or model:  # the included model has none
            raise
        preview = played(SCRIPTED)
    print_preview(out, preview)
    for note in notes(preview):
        say(note)
    if found := obstacles(preview, trained.nodes):
        fail(f"nothing can be learnt: {'; '.join(found)}", FAILED)
