"""`agentflow calibrate`: fit the confidence of answers on an evaluation."""

from pathlib import Path
from typing import Annotated

import typer

from agentflow.cli.group import FAILED, fail
from agentflow.cli.options import AsJson
from agentflow.cli.report import read_folders
from agentflow.console.confidence import print_calibrated
from agentflow.console.terminal import console, print_json

app = typer.Typer()


@app.command(epilog="Example: agentflow calibrate runs/mine")
def calibrate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder that --out of agentflow eval made.")],
    as_json: AsJson = False,
) -> None:
    """Learn from scored answers how sure an answer is."""
    from agentflow.evals.confidence import fit, reliability
    from agentflow.graph.confidence import FILE

    [found] = read_folders([run])
    path = run / FILE
    calibration = fit(found.records, found.settings)
    try:
        path.write_text(calibration.model_dump_json() + "\n", encoding="utf-8")
    except OSError as error:
        fail(f"{path} could not be written ({error.strerror}); copy the folder to where you may write", FAILED)
    measured = reliability(calibration.held_out)
    if as_json:
        print_json({"calibration": str(path), "held_out": measured})
    else:
        print_calibrated(console(), path, calibration, measured)
