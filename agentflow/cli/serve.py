"""`agentflow serve`: serve the embedded models at an OpenAI-compatible endpoint."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from agentflow.cli.group import MISUSED, fail
from agentflow.cli.listening import listen, url_of

if TYPE_CHECKING:
    from agentflow.rl.micro.chat_model import Checkpoint

KEY = "AGENTFLOW_SERVE_KEY"
"""Environment variable of the key that clients must send; unset for no key."""

app = typer.Typer()


@app.command(epilog="Example: agentflow serve embedded:planner --port 8001")
def serve(
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SPEC]...", help="embedded, embedded:trained or embedded:DIRECTORY; several at once."),
    ] = None,
    host: Annotated[str, typer.Option(help=f"Address; one that others reach needs a key in {KEY}.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8000,
) -> None:
    """Serve the embedded model, or a trained one, over the OpenAI chat completions API."""
    import uvicorn

    from agentflow.rl.micro.server import build_app

    key = os.environ.get(KEY, "").strip()
    served = {spec: _checkpoint(spec) for spec in models or ["embedded"]}
    listening = listen(host, port, "" if key else f"set {KEY} to a key that clients must send")
    url = f"{url_of(host, listening)}/v1"
    first = next(iter(served))
    # A trained planner is for the planner alone.
    option, modules = ("--model", "all modules of the agent") if first == "embedded" else ("--planner", "its planner")
    typer.echo(f"serving {', '.join(served)}, for {modules}, at {url} (Ctrl-C ends it)")
    typer.echo(f'try: agentflow solve "How many feet are 3 yards?" --corpus atlas {option} vllm:{first}@{url}')
    config = uvicorn.Config(build_app(served, key), log_level="warning", timeout_graceful_shutdown=3)
    with listening:
        uvicorn.Server(config).run(sockets=[listening])


def _checkpoint(spec: str) -> "Checkpoint":
    from agentflow.graph.models.spec import ModelError
    from agentflow.rl.micro.chat_model import checkpoint

    provider, _, model = spec.partition(":")
    if provider != "embedded":
        fail(f"{spec} is not an embedded model; write embedded, embedded:trained or embedded:DIRECTORY", MISUSED)
    try:
        return checkpoint(model)
    except ModelError as error:
        fail(str(error), MISUSED)
