"""`agentflow serve`: serve the embedded models, or an agent that learns, at an OpenAI-compatible endpoint."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentflow.cli.group import MISUSED, fail
from agentflow.cli.listening import listen, url_of
from agentflow.cli.live import Learning, serve_learning
from agentflow.cli.options import Corpus, MaxTurns, Tools, context_of
from agentflow.cli.panels import PanelledCommand

if TYPE_CHECKING:
    from agentflow.rl.micro.chat_model import Checkpoint

KEY = "AGENTFLOW_SERVE_KEY"
"""Environment variable of the key that clients must send; unset for no key."""

app = typer.Typer()


@app.command(
    cls=PanelledCommand,
    epilog="Example: agentflow serve embedded:planner --port 8001\n\n"
    "Example: agentflow serve embedded:seed --learn runs/live --held-out held_out.jsonl",
)
def serve(
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SPEC]...", help="embedded, embedded:trained or embedded:DIRECTORY; several at once."),
    ] = None,
    host: Annotated[str, typer.Option(help=f"Address; one that others reach needs a key in {KEY}.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8000,
    learn: Annotated[
        Path | None,
        typer.Option(
            metavar="DIRECTORY", help="Serve the agent with this planner, which learns from scores; its records."
        ),
    ] = None,
    held_out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Tasks that a new version must not lose on; needed by --learn.")
    ] = None,
    share: Annotated[
        float, typer.Option(min=0.01, max=0.5, help="Share of the requests that a version on trial answers.")
    ] = 0.2,
    batch: Annotated[int, typer.Option(min=1, help="Confirmed questions from which a version is trained.")] = 24,
    trial: Annotated[int, typer.Option(min=8, help="Scored answers by which a version on trial is judged.")] = 20,
    training: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Setting of the trainings; again for more."),
    ] = None,
    model: Annotated[
        str, typer.Option(metavar="SPEC", help="Model of the modules beside the planner that learns.")
    ] = "embedded:seed",
    tools: Tools = None,
    max_turns: MaxTurns = 6,
    corpus: Corpus = "auto",
) -> None:
    """Serve the embedded model, or a trained one, over the OpenAI chat completions API.

    With --learn, serve the agent, and train its planner on the questions whose answers are confirmed.
    """
    import uvicorn

    from agentflow.rl.micro.server import build_app

    key = os.environ.get(KEY, "").strip()
    needs_key = "" if key else f"set {KEY} to a key that clients must send"
    served = {spec: _checkpoint(spec) for spec in models or ["embedded"]}
    if (learn is None) != (held_out is None):
        fail("--learn and --held-out, a file of tasks with answers, go together; give both or none", MISUSED)
    if learn and held_out:
        if len(served) > 1:
            fail(f"--learn takes one planner, not {len(served)}", MISUSED)
        learning = Learning(learn, held_out, share, batch, trial, training or [])
        planner = next(iter(served))
        context = context_of(model, planner, tools, max_turns=max_turns, corpus=corpus)
        serve_learning(learning, planner, context, host, port, key, needs_key)
        return
    listening = listen(host, port, needs_key)
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
