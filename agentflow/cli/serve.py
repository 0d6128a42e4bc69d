"""`agentflow serve`: the embedded models behind an OpenAI-compatible endpoint."""

import ipaddress
import os
import socket
from typing import TYPE_CHECKING, Annotated

import typer

from agentflow.cli.group import MISUSED, fail

if TYPE_CHECKING:
    from agentflow.rl.micro.chat_model import Checkpoint

KEY = "AGENTFLOW_SERVE_KEY"
"""Environment variable of the key that clients must send, where there is one."""

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
    """Serve the embedded model, or a trained one, to whatever speaks OpenAI's chat completions."""
    import uvicorn

    from agentflow.rl.micro.server import build_app

    key = os.environ.get(KEY, "").strip()
    served = {spec: _checkpoint(spec) for spec in models or ["embedded"]}
    listening = _listen(host, port, key)
    url = f"http://{host if ':' not in host else f'[{host}]'}:{listening.getsockname()[1]}/v1"
    typer.echo(f"serving {', '.join(served)} at {url} (Ctrl-C ends it)")
    typer.echo(f'try: agentflow solve "How many feet are 3 yards?" --model vllm:{next(iter(served))}@{url}')
    config = uvicorn.Config(build_app(served, key), log_level="warning", timeout_graceful_shutdown=3)
    with listening:
        uvicorn.Server(config).run(sockets=[listening])


def _checkpoint(spec: str) -> "Checkpoint":
    from agentflow.graph.models import ModelError
    from agentflow.rl.micro.chat_model import checkpoint

    provider, _, model = spec.partition(":")
    if provider != "embedded":
        fail(f"{spec} is not an embedded model; write embedded, embedded:trained or embedded:DIRECTORY", MISUSED)
    try:
        return checkpoint(model)
    except ModelError as error:
        fail(str(error), MISUSED)


def _listen(host: str, port: int, key: str) -> socket.socket:
    """The socket, bound. Ends the command where that cannot be, or should not."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError):
        fail(f"--host {host} is no address; write 127.0.0.1, or one of this machine's", MISUSED)
    if not key and not ipaddress.ip_address(address[0]).is_loopback:
        fail(f"others reach {host}: set {KEY} to a key that clients must send", MISUSED)
    try:
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        fail(f"cannot listen on {host}, port {port} ({error.strerror}); choose another --port", MISUSED)
