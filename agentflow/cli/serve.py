"""`agentflow serve`: serve the embedded models, or an agent that learns, at an OpenAI-compatible endpoint."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from agentflow.cli.group import MISUSED, fail
from agentflow.cli.listening import listen, serve_at, url_of
from agentflow.cli.live import LearningOptions, serve_learning
from agentflow.cli.option_groups import with_groups

if TYPE_CHECKING:
    from agentflow.rl.micro.chat_model import Checkpoint

KEY = "AGENTFLOW_SERVE_KEY"
"""Environment variable of the key that clients must send; unset for no key."""

app = typer.Typer()


@app.command(
    epilog="Example: agentflow serve embedded:planner --port 8001\n\n"
    "Example: agentflow serve embedded:seed --learn runs/live --held-out held_out.jsonl",
)
@with_groups
def serve(
    learning: LearningOptions,
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SPEC]...", help="embedded, embedded:trained or embedded:DIRECTORY; several at once."),
    ] = None,
    host: Annotated[str, typer.Option(help=f"Address; one that others reach needs a key in {KEY}.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8000,
) -> None:
    """Serve the embedded model, or a trained one, over the OpenAI chat completions API.

    With --learn, serve the agent, and train its planner on the questions whose answers are confirmed.
    """
    from agentflow.rl.micro.server import build_app

    key = os.environ.get(KEY, "").strip()
    needs_key = "" if key else f"set {KEY} to a key that clients must send"
    served = {spec: _checkpoint(spec) for spec in models or ["embedded"]}
    if (learning.folder is None) != (learning.held_out is None):
        fail("--learn and --held-out, a file of tasks with answers, go together; give both or none", MISUSED)
    if learning.folder:
        if len(served) > 1:
            fail(f"--learn takes one planner, not {len(served)}", MISUSED)
        serve_learning(learning, next(iter(served)), host, port, key, needs_key)
        return
    listening = listen(host, port, needs_key)
    url = f"{url_of(host, listening)}/v1"
    first = next(iter(served))
    # A trained planner is for the planner alone.
    option, modules = ("--model", "all modules of the agent") if first == "embedded" else ("--planner", "its planner")
    typer.echo(f"serving {', '.join(served)}, for {modules}, at {url} (Ctrl-C ends it)")
    typer.echo(f'try: agentflow solve "How many feet are 3 yards?" --corpus atlas {option} vllm:{first}@{url}')
    serve_at(listening, build_app(served, key))


def _checkpoint(spec: str) -> "Checkpoint":
    from agentflow.rl.micro.chat_model import checkpoint

    provider, _, model = spec.partition(":")
    if provider != "embedded":
        fail(f"{spec} is not an embedded model; write embedded, embedded:trained or embedded:DIRECTORY", MISUSED)
    return checkpoint(model)
