"""False alarms of `agentflow verify`: honest trainings, each verified with two sets of kernels.

    python -m benchmarks.certificates

Trains the micro model's planner on Atlas for two steps with each of ten seeds, every second one with
`max_staleness=1`, certifies each, and verifies both steps with the kernels of this processor and with those that every
processor for x86-64 has. An alarm is a verification that names a difference.

Needs the extras `train` and `certify`. A benchmark that was stopped goes on with the next run.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.analyses.stages import Stages, run

COMMON = (
    *("steps=2", "questions=4", "rollouts=4", "train_tasks=48", "test_tasks=4", "validate_every=2"),
    *("validation_rollouts=1", "save_every=1", "preview=0"),
)
"""Settings of all runs."""
BASELINE = {
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "OPENBLAS_CORETYPE": "Nehalem",
}
"""Environment variables that select kernels which every processor for x86-64 has."""
KERNELS: dict[str, dict[str, str]] = {"own": {}, "baseline": BASELINE}
"""Environment variables by set of kernels."""


def main(
    out: Annotated[Path, typer.Option(help="Folder of the runs.")] = Path("runs/certificates"),
    runs: Annotated[int, typer.Option(min=1, help="Trainings, of as many seeds.")] = 10,
) -> None:
    """Train and verify what is missing, and print what the verifications found."""
    out.mkdir(parents=True, exist_ok=True)
    stages = Stages(out)
    key = str(out / "key.pem")
    shown = Table("seed", "max_staleness", "kernels", "same batches", "weights apart, of their change", "named")
    alarms = 0
    for seed in range(runs):
        settings = (*COMMON, f"seed={seed}", f"max_staleness={seed % 2}")
        folder = stages.make(f"run-{seed}", lambda folder, own=settings: run("train", f"out={folder}", *own))
        stages.make(f"certified-{seed}", lambda _, run_folder=folder: run("certify", str(run_folder), "--key", key))
        for name, environment in KERNELS.items():
            certificate = folder / "certificate.json"
            found = json.loads(
                stages.make(
                    f"verified-{seed}-{name}",
                    lambda path, file=certificate, forced=environment: _verify(file, key, path, forced),
                ).read_bytes()
            )
            steps = [step for one in found["replayed"] for step in one["steps"]]
            apart = max(one["weights"]["share"] for one in found["replayed"])
            same = f"{sum(step['batch'] for step in steps)} of {len(steps)}"
            shown.add_row(f"{seed}", f"{seed % 2}", name, same, f"{apart:.1e}", ", ".join(found["differs"]) or "-")
            alarms += bool(found["differs"])
    console = Console()
    console.print(shown)
    console.print(f"{alarms} false alarms in {runs * len(KERNELS)} verifications of {runs} honest trainings")


def _verify(certificate: Path, key: str, path: Path, forced: dict[str, str]) -> None:
    """Verify both steps, and write the result to `path`. Ends the program if there is none."""
    command = [sys.executable, "-m", "agentflow", "verify", str(certificate), "--json"]
    signer = _result(command, {})["key"]
    found = _result([*command, "--steps", "1,2", "--key", signer], forced)
    path.write_text(json.dumps(found), encoding="utf-8")


def _result(command: list[str], environment: dict[str, str]) -> dict[str, Any]:
    environment = {**os.environ, **environment}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    if done.returncode not in (0, 1):
        typer.echo(done.stderr)
        raise typer.Exit(done.returncode)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    typer.run(main)
