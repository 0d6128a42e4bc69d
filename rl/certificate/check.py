"""Check of a run folder, and of the installed code, against a certificate."""

from collections.abc import Callable
from pathlib import Path

from agentflow.evals.passport.collect import installed, source_hash
from agentflow.rl.certificate.contents import Contents, contents_of
from agentflow.rl.certificate.errors import CertificateError
from agentflow.rl.run_starts import FOLDERS, OWN, TRAINING

ALTERED = ("bad_starts", "bad_weights")
"""Codes of errors that show an alteration: what was certified could be read."""


def altered(
    certified: Contents, run: Path, seed: Path | None = None, on_part: Callable[[str], None] = lambda name: None
) -> list[str]:
    """Return the names of what in the run folder is not as it was certified.

    Arguments are those of `contents_of`. Raises CertificateError if the folder holds no training.
    """
    try:
        found = contents_of(run, steps=certified.steps, seed=seed, on_part=on_part)
    except CertificateError as error:
        if error.code in ALTERED:
            return [str(error)]
        raise
    return named_differences(certified.inputs(), found.inputs())


def other_code(certified: Contents) -> list[str]:
    """Return what of the code that is installed here is not that of the last start of the run.

    The app's own module is not looked at: its import would run it.
    """
    start = certified.starts[-1]
    code = {OWN: start.code.get(OWN, "")}, {OWN: source_hash(FOLDERS)}
    versions = start.versions, installed(TRAINING)
    return [
        *(f"installed here: code of {name}" for name in named_differences(*code)),
        *(f"installed here: version of {name}" for name in named_differences(*versions)),
    ]


def named_differences(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """Return the names whose values differ: "data: train.jsonl", "file: x (missing)", "file: y (added)"."""
    found = []
    for name in {**before, **now}:
        if name not in now:
            found.append(f"{name} (missing)")
        elif name not in before:
            found.append(f"{name} (added)")
        elif before[name] != now[name]:
            found.append(name)
    return found
