"""`agentflow view`: serve a live page of runs, evaluations and trainings."""

import os
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentflow.cli.group import MISUSED, fail
from agentflow.cli.listening import listen, url_of

if TYPE_CHECKING:
    from agentflow.view.run_index import Root

app = typer.Typer()

USUAL = Path("runs")
"""Default folder of trainings and, by convention, of evaluations and traces."""


@app.command(epilog="Example: agentflow view runs")
def view(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RUNS]...",
            help="Folders of runs, and files of solve --trace; default: runs/ and this folder.",
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Loopback address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 0,
    browser: Annotated[
        bool | None, typer.Option("--browser/--no-browser", help="Open the page; by default where there is a display.")
    ] = None,
) -> None:
    """Show turns, memory, training curves and groups on a local page, live."""
    import uvicorn

    from agentflow.view.app import build_app
    from agentflow.view.run_index import RunIndex

    roots = _roots(runs or [])
    listening = listen(host, port, "the page is for this machine alone; use an ssh tunnel to look from another one")
    url = url_of(host, listening)
    index = RunIndex(roots)
    server = uvicorn.Server(
        uvicorn.Config(
            build_app(index, lambda: server.should_exit),
            log_level="warning",
            timeout_graceful_shutdown=5,
            server_header=False,
        )
    )
    typer.echo(f"looking at {', '.join(str(root.path) for root in roots)}; nothing is changed there")
    typer.echo(f"open {url} (Ctrl-C ends it)")
    if browser or (browser is None and _has_display()):
        webbrowser.open(url)
    with listening:
        server.run(sockets=[listening])


def _roots(runs: list[Path]) -> "list[Root]":
    from agentflow.evals.run_folder import SETTINGS, kind_of, other_version
    from agentflow.view.run_index import Root

    for path in runs:
        if not path.exists():
            fail(f"there is no {path}; name a folder of runs, or a file of solve --trace", MISUSED)
        if (path / SETTINGS).is_file() and not kind_of((path / SETTINGS).read_bytes()):
            fail(other_version(path), MISUSED)
    if runs:
        return [Root(path.resolve()) for path in dict.fromkeys(runs)]
    return [Root(USUAL.resolve()), Root(Path.cwd(), depth=0)]


def _has_display() -> bool:
    """Return whether stdout is a terminal and a browser can be opened on this machine."""
    if not sys.stdout.isatty():
        return False
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
